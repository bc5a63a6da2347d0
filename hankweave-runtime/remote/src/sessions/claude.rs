//! Transcripts of claude: `projects/FOLDER/ID.jsonl`, where FOLDER is made of the folder in which it works.

use std::path::{Path, PathBuf};

use hankweave_runtime::world::World;
use hankweave_runtime::world::disk::FileKind;

use super::home;
use crate::contents::Content;
use crate::error::RemoteError;
use crate::files::{add, list};
use crate::manifest::SESSIONS;

/// The longest name of a folder that claude gives a project; it shortens longer ones in a way of its own.
const LONGEST_PROJECT: usize = 200;

pub(super) fn collect(world: &World, session: &str, contents: &mut Vec<Content>) -> Result<(), RemoteError> {
    let Some(projects) = projects(world) else {
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

/// Where a file belongs for a run in `work_dir`.
pub(super) fn place(world: &World, work_dir: &Path, file: &str) -> Option<PathBuf> {
    Some(projects(world)?.join(project_of(work_dir)?).join(file))
}

fn projects(world: &World) -> Option<PathBuf> {
    Some(home(world, "CLAUDE_CONFIG_DIR", ".claude")?.join("projects"))
}

/// The name that claude gives a folder in which it works; `None` when it is too long for us to know.
fn project_of(work_dir: &Path) -> Option<String> {
    let plain = |character: char| match character.is_ascii_alphanumeric() {
        true => character,
        false => '-',
    };
    let name: String = work_dir.to_str()?.chars().map(plain).collect();
    (name.len() <= LONGEST_PROJECT).then_some(name)
}
