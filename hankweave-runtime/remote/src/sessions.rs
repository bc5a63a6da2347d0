//! What agents write down of their conversations: found on one machine, and put where the agent looks for it on another (RUN-27).

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use hankweave_core::document::HankweaveState;
use hankweave_core::id::SessionId;
use hankweave_runtime::ExecutionDir;
use hankweave_runtime::world::World;
use hankweave_runtime::world::disk::{Disk, FileKind, IoError, parent, replace};

use crate::contents::Content;
use crate::error::RemoteError;
use crate::files::{add, list};
use crate::manifest::{SESSIONS, STATE};

/// The newest ones come along; a run goes on with one of these.
const MOST: usize = 64;

/// The longest name of a folder that claude gives a project; it shortens longer ones in a way of its own.
const LONGEST_PROJECT: usize = 200;

/// A larger file of a conversation is not put anywhere, in bytes.
pub(crate) const MAX_BYTES: u64 = 512 << 20;

/// Sessions that a record speaks of.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    pub(crate) taken: Vec<SessionId>,
    pub(crate) left_behind: Vec<SessionId>,
}

/// Adds the files of the sessions of this state.
pub(crate) fn collect(
    world: &World,
    dir: &ExecutionDir,
    state: &HankweaveState,
    contents: &mut Vec<Content>,
) -> Result<Sessions, RemoteError> {
    let mut sessions = Sessions::default();
    for session in of(state) {
        let before = contents.len();
        if sessions.taken.len() < MOST && is_plain(session.as_str()) {
            of_scripted(world, dir, session.as_str(), contents)?;
            of_claude(world, session.as_str(), contents)?;
        }
        match contents.len() > before {
            true => sessions.taken.push(session),
            false => sessions.left_behind.push(session),
        }
    }
    Ok(sessions)
}

/// All sessions, those of the newest runs first.
fn of(state: &HankweaveState) -> Vec<SessionId> {
    let codons = state.runs.iter().flat_map(|run| run.codons.iter().rev());
    let named = codons.filter_map(|codon| codon.claude_session_id());
    let mut seen = BTreeSet::new();
    named
        .filter(|session| seen.insert((*session).clone()))
        .cloned()
        .collect()
}

/// Whether it can be the name of a file and nothing else.
fn is_plain(session: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    !session.is_empty() && session.bytes().all(plain)
}

fn of_scripted(
    world: &World,
    dir: &ExecutionDir,
    session: &str,
    contents: &mut Vec<Content>,
) -> Result<(), RemoteError> {
    let name = format!("scripted-sessions/{session}.json");
    let path = dir.temp_dir().join(&name);
    add(&*world.disk, &path, &format!("{STATE}/tmp/{name}"), contents)
}

fn of_claude(world: &World, session: &str, contents: &mut Vec<Content>) -> Result<(), RemoteError> {
    let Some(projects) = claude_projects(world) else {
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

/// Where claude keeps its projects.
fn claude_projects(world: &World) -> Option<PathBuf> {
    let variable = |name| world.environment.get(name).filter(|value| !value.is_empty());
    let config = match variable("CLAUDE_CONFIG_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(variable("HOME")?).join(".claude"),
    };
    config.is_absolute().then(|| config.join("projects"))
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

/// Where a file of a record's `sessions` belongs on this machine for a run in `work_dir`; `None` when nobody knows.
pub(crate) fn place(world: &World, work_dir: &Path, file: &str) -> Option<PathBuf> {
    let file = file.strip_prefix(SESSIONS)?.strip_prefix("/claude/")?;
    Some(claude_projects(world)?.join(project_of(work_dir)?).join(file))
}

/// Puts a file in its place. One that is there and continues it, or tells something else, stays.
pub(crate) fn put(disk: &dyn Disk, place: &Path, bytes: &[u8]) -> Result<(), RemoteError> {
    let present = match disk.read(place, MAX_BYTES) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        read => read.map_err(IoError::at("read", place))?,
    };
    if !bytes.starts_with(&present) || present == bytes {
        return Ok(());
    }
    let made = disk.make_private_dirs(parent(place));
    made.and_then(|()| replace(disk, place, bytes))
        .map_err(|error| IoError::at("write", place)(error).into())
}

/// Whether a session that did not come along is on this machine all the same.
pub(crate) fn is_here(world: &World, dir: &ExecutionDir, session: &SessionId) -> bool {
    let mut found = Vec::new();
    let looked = of_scripted(world, dir, session.as_str(), &mut found)
        .and_then(|()| of_claude(world, session.as_str(), &mut found));
    is_plain(session.as_str()) && looked.is_ok() && !found.is_empty()
}

#[cfg(test)]
mod tests {
    use hankweave_runtime::world::disk::RealDisk;
    use hankweave_runtime::world::environment::Environment;

    use super::*;

    // covers: RUN-27
    #[test]
    fn a_transcript_goes_where_claude_looks_for_it_and_nothing_longer_is_lost() {
        let home = tempfile::tempdir().unwrap();
        let environment: Environment = [("HOME", home.path())].into_iter().collect();
        let world = World::with_environment(environment);
        let at = place(&world, Path::new("/srv/my work_1"), "sessions/claude/s-1.jsonl").unwrap();
        assert_eq!(at, home.path().join(".claude/projects/-srv-my-work-1/s-1.jsonl"));
        let long = format!("/{}", "x".repeat(300));
        assert_eq!(place(&world, Path::new(&long), "sessions/claude/s-1.jsonl"), None);
        assert_eq!(place(&world, Path::new("/srv"), "sessions/other/s-1.jsonl"), None);
        for (text, expected) in [
            ("a\n", "a\n"),
            ("a\nb\n", "a\nb\n"),
            ("a\n", "a\nb\n"),
            ("x\n", "a\nb\n"),
        ] {
            put(&RealDisk, &at, text.as_bytes()).unwrap();
            assert_eq!(std::fs::read_to_string(&at).unwrap(), expected);
        }
    }
}
