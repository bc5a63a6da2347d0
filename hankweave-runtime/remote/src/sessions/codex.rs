//! Rollout files of codex: `sessions/YEAR/MONTH/DAY/rollout-TIME-ID.jsonl`, for every folder in which codex works (RUN-30).

use std::path::{Path, PathBuf};

use hankweave_runtime::world::World;

use super::{AgentFolder, SessionFile, home, is_plain_name, session_files};
use crate::contents::RecordFile;
use crate::error::RemoteError;
use crate::files::add;
use crate::manifest::SESSIONS;

/// Returns all rollout files.
pub(super) fn files(world: &World, work_dir: &Path) -> Vec<SessionFile> {
    sessions(world, work_dir).map_or_else(Vec::new, |folder| session_files(world, &folder))
}

pub(super) fn collect(
    world: &World,
    files: &[SessionFile],
    session: &str,
    contents: &mut Vec<RecordFile>,
) -> Result<(), RemoteError> {
    let end = format!("-{session}.jsonl");
    // Old versions may have left another file of an earlier day after a fork, so the newest file counts.
    let is_it = |found: &&SessionFile| found.name.ends_with(&end) && belongs_to(&found.name, session);
    match files.iter().rev().find(is_it) {
        Some(found) => {
            let place = format!("{SESSIONS}/codex/{}", found.name);
            add(&*world.disk, &found.path, &place, contents)
        }
        None => Ok(()),
    }
}

/// Whether codex keeps the file for this session.
pub(super) fn belongs_to(file: &str, session: &str) -> bool {
    let is_number =
        |text: &str, length| text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit());
    match file.split('/').collect::<Vec<_>>()[..] {
        [year, month, day, name] => {
            let end = format!("-{session}.jsonl");
            is_number(year, 4)
                && is_number(month, 2)
                && is_number(day, 2)
                && is_plain_name(name)
                && name.starts_with("rollout-")
                && name.ends_with(&end)
        }
        _ => false,
    }
}

/// Returns the path of a file: as on the other machine, inside codex's folder on this one.
pub(super) fn place(world: &World, work_dir: &Path, file: &str) -> Option<PathBuf> {
    Some(sessions(world, work_dir)?.join(file))
}

fn sessions(world: &World, work_dir: &Path) -> Option<PathBuf> {
    Some(home(world, work_dir, AgentFolder::CODEX)?.join("sessions"))
}
