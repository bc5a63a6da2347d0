//! Session files of claude: the transcript `projects/FOLDER/ID.jsonl`, where FOLDER is derived from the folder in which
//! claude works, and the folder `ID` next to it.

use std::path::{Path, PathBuf};

use hankweave_runtime::world::World;
use hankweave_runtime::world::disk::FileKind;

use super::{AgentFolder, home, is_plain_name};
use crate::contents::RecordFile;
use crate::error::RemoteError;
use crate::files::{add, list};
use crate::manifest::SESSIONS;

/// Longest folder name that claude gives a project; it shortens longer ones by its own rules.
const LONGEST_PROJECT: usize = 200;

/// Adds the files of this session, from whichever project folder has them.
pub(super) fn collect(
    world: &World,
    work_dir: &Path,
    session: &str,
    contents: &mut Vec<RecordFile>,
) -> Result<(), RemoteError> {
    let Some(projects) = projects(world, work_dir) else {
        return Ok(());
    };
    let disk = &*world.disk;
    for project in list(disk, &projects)? {
        let project = projects.join(project);
        let transcript = project.join(format!("{session}.jsonl"));
        let is_file = |path: &Path| {
            disk.metadata(path)
                .is_ok_and(|found| found.kind == FileKind::File)
        };
        if is_file(&transcript) {
            let place = format!("{SESSIONS}/claude/{session}");
            add(disk, &transcript, &format!("{place}.jsonl"), contents)?;
            return add(disk, &project.join(session), &place, contents);
        }
    }
    Ok(())
}

/// Whether the file belongs to this session: its transcript, or a file in the folder next to it.
pub(super) fn belongs_to(file: &str, session: &str) -> bool {
    let rest = file.strip_prefix(session);
    rest.is_some_and(|rest| rest == ".jsonl" || rest.starts_with('/'))
}

/// Whether claude itself writes such files: conversations of sub-agents and results of tools. Its memory files are excluded.
fn is_known(file: &str) -> bool {
    match file.split('/').collect::<Vec<_>>()[..] {
        [transcript] => is_plain_name(transcript),
        [_, folder @ ("subagents" | "tool-results"), name] => {
            let ends: &[&str] = match folder {
                "subagents" => &[".jsonl", ".json"],
                _ => &[".txt", ".json"],
            };
            is_plain_name(name) && ends.iter().any(|end| name.ends_with(end))
        }
        _ => false,
    }
}

/// Returns the path of a file for a run in `work_dir`; `None` for a file that claude itself does not write.
pub(super) fn place(world: &World, work_dir: &Path, file: &str) -> Option<PathBuf> {
    if !is_known(file) {
        return None;
    }
    Some(projects(world, work_dir)?.join(project_of(work_dir)?).join(file))
}

fn projects(world: &World, work_dir: &Path) -> Option<PathBuf> {
    Some(home(world, work_dir, AgentFolder::CLAUDE)?.join("projects"))
}

/// Returns claude's name for a folder in which it works; `None` when the name is too long for us to derive.
fn project_of(work_dir: &Path) -> Option<String> {
    let plain = |character: char| match character.is_ascii_alphanumeric() {
        true => character,
        false => '-',
    };
    let name: String = work_dir.to_str()?.chars().map(plain).collect();
    (name.len() <= LONGEST_PROJECT).then_some(name)
}
