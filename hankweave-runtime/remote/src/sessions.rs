//! Session files of agents: a push collects them, a clone or pull installs them on another machine where the agent looks for
//! them (RUN-27).

mod claude;
mod codex;
mod pi;

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use hankweave_core::document::HankweaveState;
use hankweave_core::id::SessionId;
use hankweave_runtime::ExecutionDir;
use hankweave_runtime::driver::AgentFolder;
use hankweave_runtime::world::World;
use hankweave_runtime::world::disk::{Disk, IoError, parent, replace};

use crate::contents::RecordFile;
use crate::error::RemoteError;
use crate::files::{add, walk};
use crate::manifest::{RecordManifest, SESSIONS, STATE};

/// Maximum number of sessions in a record. The newest are taken, because a run continues one of these.
const MOST: usize = 64;

/// Size limit of a file of a session or a hank, in bytes. A larger one fails the clone or pull.
pub(crate) const MAX_BYTES: u64 = 512 << 20;

/// Sessions that a record names.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    /// Sessions whose files are in the record.
    pub(crate) taken: Vec<SessionId>,
    /// Sessions whose files are not in the record.
    pub(crate) left_behind: Vec<SessionId>,
}

/// File in which an agent keeps a session.
#[derive(Debug)]
struct SessionFile {
    /// Path inside the folder of all sessions, with `/`.
    name: String,
    /// Path on this machine.
    path: PathBuf,
}

/// Session folders of this machine.
struct SessionDirs<'w> {
    world: &'w World,
    dir: &'w ExecutionDir,
    /// All session files of codex, listed once.
    codex: OnceCell<Vec<SessionFile>>,
    /// All session files of pi, listed once.
    pi: OnceCell<Vec<SessionFile>>,
}

impl<'w> SessionDirs<'w> {
    fn new(world: &'w World, dir: &'w ExecutionDir) -> Self {
        Self {
            world,
            dir,
            codex: OnceCell::new(),
            pi: OnceCell::new(),
        }
    }

    /// Adds the files that any agent keeps for this session.
    fn collect(&self, session: &str, contents: &mut Vec<RecordFile>) -> Result<(), RemoteError> {
        let (world, work_dir, before) = (self.world, self.dir.root(), contents.len());
        collect_scripted(world, self.dir, session, contents)?;
        claude::collect(world, work_dir, session, contents)?;
        // A session belongs to one agent. The files of codex and pi have to be listed, so they are only searched if no agent above has it.
        if contents.len() == before {
            let files = self.codex.get_or_init(|| codex::files(world, work_dir));
            codex::collect(world, files, session, contents)?;
        }
        if contents.len() == before {
            let files = self.pi.get_or_init(|| pi::files(world, work_dir));
            pi::collect(world, files, session, contents);
        }
        Ok(())
    }
}

/// Adds the files of the sessions in `state` to `contents`; returns which sessions have files there.
pub(crate) fn collect(
    world: &World,
    dir: &ExecutionDir,
    state: &HankweaveState,
    contents: &mut Vec<RecordFile>,
) -> Result<Sessions, RemoteError> {
    let (places, mut sessions) = (SessionDirs::new(world, dir), Sessions::default());
    for session in of(state) {
        let before = contents.len();
        if sessions.taken.len() < MOST && is_plain(session.as_str()) {
            places.collect(session.as_str(), contents)?;
        }
        match contents.len() > before {
            true => sessions.taken.push(session),
            false => sessions.left_behind.push(session),
        }
    }
    Ok(sessions)
}

/// Returns all sessions in `state`, those of the newest runs first.
pub(crate) fn of(state: &HankweaveState) -> Vec<SessionId> {
    let codons = state.runs.iter().flat_map(|run| run.codons.iter().rev());
    let named = codons.filter_map(|codon| codon.agent_session_id());
    let mut seen = BTreeSet::new();
    named
        .filter(|session| seen.insert((*session).clone()))
        .cloned()
        .collect()
}

/// Whether a session id is safe as a part of file names.
fn is_plain(session: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    !session.is_empty() && session.bytes().all(plain)
}

/// Adds the file that the scripted agent keeps for this session.
fn collect_scripted(
    world: &World,
    dir: &ExecutionDir,
    session: &str,
    contents: &mut Vec<RecordFile>,
) -> Result<(), RemoteError> {
    let name = format!("scripted-sessions/{session}.json");
    let path = dir.temp_dir().join(&name);
    add(&*world.disk, &path, &format!("{STATE}/tmp/{name}"), contents)
}

/// Returns the agent's own folder, for an agent that works in `work_dir`, according to the variables of this process.
fn home(world: &World, work_dir: &Path, folder: AgentFolder) -> Option<PathBuf> {
    folder.path(work_dir, |name| world.environment.get(name))
}

/// Returns the files in a folder and its subfolders, in order. A folder that cannot be read counts as empty.
fn session_files(world: &World, folder: &Path) -> Vec<SessionFile> {
    let mut files = Vec::new();
    if let Err(error) = walk(&*world.disk, folder, "", 0, &mut files) {
        tracing::warn!(%error, "sessions of agents that cannot be looked at do not come along");
    }
    let files = files.into_iter();
    files
        .map(|(name, path, _)| SessionFile {
            name: name.trim_start_matches('/').to_owned(),
            path,
        })
        .collect()
}

/// Installs `file`, a path in a record's folder `sessions`, on this machine, for a run in `work_dir`. Ignores a file whose path here is unknown.
pub(crate) fn install_session(
    world: &World,
    work_dir: &Path,
    file: &str,
    bytes: &[u8],
) -> Result<(), RemoteError> {
    match destination(world, work_dir, file, bytes) {
        Some((place, bytes)) => write_longer(&*world.disk, &place, &bytes),
        None => Ok(()),
    }
}

/// Checks that each session file in a record belongs to a session of the record, and has the name that its agent gives it.
pub(crate) fn check(manifest: &RecordManifest) -> Result<(), RemoteError> {
    if manifest.sessions.len() > MOST {
        return Err(RemoteError::corrupt("it has more sessions than come along"));
    }
    let is_named = |file: &str| {
        let mut named = manifest.sessions.iter().map(SessionId::as_str);
        named.any(|session| belongs_to(file, session))
    };
    match manifest
        .files
        .keys()
        .find(|file| is_session_file(file) && !is_named(file))
    {
        None => Ok(()),
        Some(file) => Err(RemoteError::corrupt(format!(
            "the file `{}` is of none of its sessions",
            file.escape_debug()
        ))),
    }
}

/// Whether a file of a record is a session file of an agent.
fn is_session_file(file: &str) -> bool {
    let scripted = |file: &str| {
        file.strip_prefix(STATE)
            .is_some_and(|rest| rest.starts_with(SCRIPTED))
    };
    file.split('/').next() == Some(SESSIONS) || scripted(file)
}

/// Whether an agent keeps this file of a record for the session, by the name of the file. True for files of agents that
/// this version does not know; these are never installed.
fn belongs_to(file: &str, session: &str) -> bool {
    if !is_plain(session) {
        return false;
    }
    if let Some(name) = file
        .strip_prefix(STATE)
        .and_then(|rest| rest.strip_prefix(SCRIPTED))
    {
        return name.strip_suffix(".json") == Some(session);
    }
    let beneath = file
        .strip_prefix(SESSIONS)
        .and_then(|rest| rest.strip_prefix('/'));
    let Some((agent, name)) = beneath.and_then(|beneath| beneath.split_once('/')) else {
        return false;
    };
    match agent {
        "claude" => claude::belongs_to(name, session),
        "codex" => codex::belongs_to(name, session),
        "pi" => pi::belongs_to(name, session),
        _ => true,
    }
}

/// Folder of the scripted agent's sessions inside `state`.
const SCRIPTED: &str = "/tmp/scripted-sessions/";

/// Whether a file name has only characters without a special meaning to shells and systems.
fn is_plain_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !name.is_empty() && !name.starts_with('.') && name.bytes().all(plain)
}

/// Returns path and contents of a session file on this machine; `None` if its path here is unknown.
fn destination<'b>(
    world: &World,
    work_dir: &Path,
    file: &str,
    bytes: &'b [u8],
) -> Option<(PathBuf, Cow<'b, [u8]>)> {
    let (agent, rest) = file.strip_prefix(SESSIONS)?.strip_prefix('/')?.split_once('/')?;
    Some(match agent {
        "claude" => (claude::place(world, work_dir, rest)?, bytes.into()),
        "codex" => (codex::place(world, work_dir, rest)?, bytes.into()),
        "pi" => {
            let bytes = pi::working_in(bytes, work_dir.to_str()?)?;
            (pi::place(world, work_dir, rest)?, bytes.into())
        }
        _ => return None,
    })
}

/// Writes a file that is missing, or whose existing contents are the beginning of `bytes`. Any other existing file stays.
fn write_longer(disk: &dyn Disk, place: &Path, bytes: &[u8]) -> Result<(), RemoteError> {
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

/// Whether this machine has files of the session.
pub(crate) fn is_here(world: &World, dir: &ExecutionDir, session: &SessionId) -> bool {
    let mut found = Vec::new();
    is_plain(session.as_str())
        && SessionDirs::new(world, dir)
            .collect(session.as_str(), &mut found)
            .is_ok()
        && !found.is_empty()
}

#[cfg(test)]
mod tests {
    use hankweave_runtime::world::environment::Environment;

    use super::*;

    /// Returns a machine with nothing but a home.
    fn machine(home: &Path) -> World {
        let environment: Environment = [("HOME", home)].into_iter().collect();
        World::with_environment(environment)
    }

    // covers: RUN-27
    #[test]
    fn a_transcript_goes_where_claude_looks_for_it_and_nothing_longer_is_lost() {
        let home = tempfile::tempdir().unwrap();
        let world = machine(home.path());
        let put = |folder: &str, file: &str, text: &str| {
            install_session(&world, Path::new(folder), file, text.as_bytes()).unwrap();
        };
        let at = home.path().join(".claude/projects/-srv-my-work-1/s-1.jsonl");
        for (text, expected) in [
            ("a\n", "a\n"),
            ("a\nb\n", "a\nb\n"),
            ("a\n", "a\nb\n"),
            ("x\n", "a\nb\n"),
        ] {
            put("/srv/my work_1", "sessions/claude/s-1.jsonl", text);
            assert_eq!(std::fs::read_to_string(&at).unwrap(), expected);
        }
        let long = format!("/{}", "x".repeat(300));
        put(&long, "sessions/claude/s-1.jsonl", "a\n");
        put(
            &long,
            "sessions/pi/t_s-1.jsonl",
            "{\"type\":\"session\",\"cwd\":\"\"}\n",
        );
        put("/srv", "sessions/other/s-1.jsonl", "a\n");
        let homes = std::fs::read_dir(home.path()).unwrap().count();
        let projects = std::fs::read_dir(home.path().join(".claude/projects"))
            .unwrap()
            .count();
        assert_eq!((homes, projects), (1, 1), "nobody knows where those belong");
    }

    // covers: RUN-30
    #[test]
    fn files_of_codex_and_pi_go_where_these_look_for_them_and_back() {
        let homes = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [here, there] = [0, 1].map(|number| machine(homes[number].path()));
        let folders = ["/home/ann/work", "/srv/runs/1"].map(Path::new);
        let session = |folder: &Path| format!("{{\"type\":\"session\",\"cwd\":{folder:?}}}\nsaid\n");
        let files = [
            (
                ".codex/sessions/2026/11/25/rollout-2026-t-1.jsonl",
                "said\n".to_owned(),
            ),
            (
                ".pi/agent/sessions/--home-ann-work--/2026_p-1.jsonl",
                session(folders[0]),
            ),
        ];
        for (file, text) in &files {
            let file = homes[0].path().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        let pass = |from: &World, to: &World, folder: &Path| {
            let dir = ExecutionDir::new(folder.to_owned());
            let mut contents = Vec::new();
            for session in ["t-1", "p-1", "p"] {
                SessionDirs::new(from, &dir)
                    .collect(session, &mut contents)
                    .unwrap();
            }
            assert_eq!(contents.len(), 2);
            for content in &contents {
                install_session(to, folder, &content.path, &content.piece(&*from.disk, 0).unwrap()).unwrap();
            }
        };
        let read = |home: usize, file: &str| std::fs::read_to_string(homes[home].path().join(file)).unwrap();
        pass(&here, &there, folders[1]);
        assert_eq!(read(1, files[0].0), "said\n");
        let pi = ".pi/agent/sessions/--srv-runs-1--/2026_p-1.jsonl";
        assert_eq!(read(1, pi), session(folders[1]));
        std::fs::write(homes[1].path().join(pi), session(folders[1]) + "more\n").unwrap();
        pass(&there, &here, folders[0]);
        assert_eq!(read(0, files[1].0), session(folders[0]) + "more\n");
    }
}
