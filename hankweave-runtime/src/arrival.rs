//! Replaces the record of an execution directory with one that came from another machine (RUN-26, RUN-27).
//!
//! `hankweave-remote` prepares the arriving record in `.hankweave/remote/arriving` and announces it once it is complete. From
//! then on the arriving record counts: the next process that opens the directory calls [`finish`], which moves the record into
//! place, entry by entry, and restores the files of its checkpoint. Every step can be repeated, so a kill in between does no harm.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use hankweave_core::id::{CheckpointSha, SessionId};
use hankweave_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::checkpoint::{
    self, CheckpointStore, GitCheckpoints, HistoryError, MAX_FILE_BYTES, OpenStoreRequest, RestoreError,
    RestoreRequest,
};
use crate::paths::ExecutionDir;
use crate::world::World;
use crate::world::disk::{
    Disk, IoError, OpenedEntry, PathError, read_if_present, remove_if_present, replace,
};

/// Size limit of a file that is read, in bytes; a larger one is not ours.
const MAX_BYTES: u64 = 4 << 20;

/// The folder in the state directory for files that come from and go to other machines.
const REMOTE: &str = "remote";

/// Folder of the arriving record, inside `remote`.
const ARRIVING: &str = "arriving";

/// Folder of the replaced entries, inside `remote`.
const BEFORE: &str = "before";

/// Marker inside `remote` that makes the arriving record count.
const READY: &str = "ready.json";

/// File in the state directory that lists the sessions whose transcripts did not come along.
const ELSEWHERE: &str = "sessions-elsewhere.json";

/// Content of the marker: what an arriving record replaces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceSwap {
    /// Entries that the new record has; they replace those of the state directory.
    pub replaced: BTreeSet<String>,
    /// Entries of the state directory that the new record does not have.
    pub removed: BTreeSet<String>,
    /// The checkpoint whose files are restored.
    pub checkpoint: Option<CheckpointSha>,
    /// The checkpoint of the workspace's files before the restore.
    pub left: Option<CheckpointSha>,
}

/// Why an arrived record is not in place yet; the next start tries again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArrivalError {
    /// A file or folder could not be moved.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The checkpoints of the arrived record cannot be used.
    #[error(transparent)]
    Checkpoints(#[from] checkpoint::OpenStoreError),
    /// It is unknown whether the checkpoint to restore exists.
    #[error("failed to look for the checkpoint that came from another machine")]
    History(#[from] HistoryError),
    /// Not all files of the checkpoint could be restored.
    #[error("failed to bring back the files that came from another machine")]
    Restore(#[from] RestoreError),
}

/// The folder in which a record is prepared: an execution directory of its own, without files.
#[must_use]
pub fn place(dir: &ExecutionDir) -> ExecutionDir {
    ExecutionDir::new(folder(dir).join(ARRIVING))
}

/// Removes what was prepared and never announced, and what an earlier record left when its removal was interrupted. The lock of
/// the directory must be held.
///
/// # Errors
///
/// [`IoError`] when it cannot be removed.
pub fn discard(disk: &dyn Disk, dir: &ExecutionDir) -> Result<(), IoError> {
    // The next swap would take an entry in `before` for one that it has moved out already, and leave the present one in its place.
    // While a marker exists, these entries are still needed.
    if !exists(disk, &ready(dir))? {
        remove(disk, dir, BEFORE)?;
    }
    remove(disk, dir, ARRIVING)
}

/// Makes the prepared record count; durable on return. The lock of the directory must be held.
///
/// # Errors
///
/// [`IoError`]; then the prepared record may count or not.
pub fn announce(disk: &dyn Disk, dir: &ExecutionDir, arrival: &WorkspaceSwap) -> Result<(), IoError> {
    let path = ready(dir);
    let text = serde_json::to_vec(arrival).map_err(io::Error::from);
    text.and_then(|text| replace(disk, &path, &text))
        .map_err(IoError::at("write", &path))
}

/// Whether an announced record is not in place yet.
#[must_use]
pub fn is_announced(disk: &dyn Disk, dir: &ExecutionDir) -> bool {
    disk.metadata(&ready(dir)).is_ok()
}

/// Puts the announced record in place, and returns whether there was one. The lock of the directory must be held. Blocks.
///
/// # Errors
///
/// [`ArrivalError`]; the next call continues where this one ended.
pub fn finish(world: &World, dir: &ExecutionDir) -> Result<bool, ArrivalError> {
    let Some(arrival) = swap(&*world.disk, dir)? else {
        return Ok(false);
    };
    let request = OpenStoreRequest {
        repository: dir.checkpoints(),
        workspace: dir.root().to_owned(),
        at: world.clock.now(),
        nonce: world.ids.nonce(),
        most_bytes: MAX_FILE_BYTES,
    };
    let (store, _) = GitCheckpoints::open(&request)?;
    finish_swap(&*world.disk, dir, &store, &arrival, world.clock.now())?;
    Ok(true)
}

/// Moves the announced entries into the state directory, and the entries that they replace out of it.
fn swap(disk: &dyn Disk, dir: &ExecutionDir) -> Result<Option<WorkspaceSwap>, IoError> {
    let path = ready(dir);
    let read = read_if_present(disk, &path, MAX_BYTES).map_err(IoError::at("read", &path))?;
    // A marker that cannot be understood announces nothing: what it would replace is unknown.
    let Some(arrival) = read.and_then(|bytes| serde_json::from_slice::<WorkspaceSwap>(&bytes).ok()) else {
        return Ok(None);
    };
    let (new, before) = (place(dir).state_dir(), folder(dir).join(BEFORE));
    for inside in [&new, &before] {
        refuse_links(disk, dir, inside)?;
    }
    disk.make_private_dirs(&before)
        .map_err(IoError::at("make", &before))?;
    for name in arrival.replaced.iter().filter(|name| is_entry(name)) {
        let (new, own) = (new.join(name), dir.state_dir().join(name));
        // An earlier call may have been cut short after this rename. An entry that is missing among the new ones is in place
        // already; moving `own` out again would take the new entry away.
        if exists(disk, &new)? {
            move_out(disk, &own, &before.join(name))?;
            disk.rename(&new, &own).map_err(IoError::at("replace", &own))?;
        }
    }
    for name in arrival.removed.iter().filter(|name| is_entry(name)) {
        move_out(disk, &dir.state_dir().join(name), &before.join(name))?;
    }
    for folder in [before, dir.state_dir()] {
        disk.sync_dir(&folder).map_err(IoError::at("sync", &folder))?;
    }
    Ok(Some(arrival))
}

/// Refuses a symbolic link on the path to the folder `inside`. Another user's directory may contain one, and through it files
/// would be moved from or to somewhere outside of the state directory.
fn refuse_links(disk: &dyn Disk, dir: &ExecutionDir, inside: &Path) -> Result<(), IoError> {
    let refused = |error| IoError::at("look at", inside)(error);
    let state = disk.open_folder(&dir.state_dir()).map_err(refused)?;
    let Ok(within) = inside.strip_prefix(dir.state_dir()) else {
        return Ok(());
    };
    match state.lookup(within) {
        Ok(None | Some(OpenedEntry::Folder(_))) => Ok(()),
        Err(PathError::Io(error)) => Err(refused(error)),
        Ok(Some(_)) | Err(_) => Err(refused(io::ErrorKind::NotADirectory.into())),
    }
}

/// Moves the entry `own` to `before`, if it exists and was not moved by an earlier call.
fn move_out(disk: &dyn Disk, own: &Path, before: &Path) -> Result<(), IoError> {
    match exists(disk, own)? && !exists(disk, before)? {
        true => disk.rename(own, before).map_err(IoError::at("move", own)),
        false => Ok(()),
    }
}

/// Restores the files of the record that is now in place, and forgets the record before it.
fn finish_swap(
    disk: &dyn Disk,
    dir: &ExecutionDir,
    store: &dyn CheckpointStore,
    arrival: &WorkspaceSwap,
    at: Timestamp,
) -> Result<(), ArrivalError> {
    if let Some(target) = &arrival.checkpoint
        && store.contains(target)?
    {
        let known = |sha: &CheckpointSha| store.contains(sha).unwrap_or(false);
        let left = arrival.left.clone().filter(known);
        store.restore(&RestoreRequest {
            target: target.clone(),
            spares_changed: false,
            // Files that are as in `left` are saved in that checkpoint already.
            safety: left.clone(),
            left,
            at,
        })?;
    }
    let path = ready(dir);
    remove_if_present(disk, &path).map_err(IoError::at("remove", &path))?;
    disk.sync_dir(&folder(dir)).map_err(IoError::at("sync", &path))?;
    remove(disk, dir, BEFORE)?;
    Ok(remove(disk, dir, ARRIVING)?)
}

/// Notes the sessions whose transcripts stayed on another machine.
///
/// # Errors
///
/// Returns the error of the disk.
pub fn note_elsewhere(disk: &dyn Disk, dir: &ExecutionDir, sessions: &[SessionId]) -> io::Result<()> {
    let path = dir.state_dir().join(ELSEWHERE);
    match sessions.is_empty() {
        true => remove_if_present(disk, &path),
        false => replace(disk, &path, &serde_json::to_vec(sessions)?),
    }
}

/// Whether the transcript of a session stayed on another machine, so that an agent begins a new one in its place (RUN-27).
pub fn is_elsewhere(disk: &dyn Disk, dir: &ExecutionDir, session: &SessionId) -> bool {
    let read = read_if_present(disk, &dir.state_dir().join(ELSEWHERE), MAX_BYTES);
    let noted = read
        .ok()
        .flatten()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok());
    noted.is_some_and(|noted: Vec<SessionId>| noted.contains(session))
}

/// Whether a name is that of an entry of the state directory which may be replaced: not a path out of it, `remote` or the lock.
fn is_entry(name: &str) -> bool {
    !matches!(name, "" | "." | ".." | REMOTE | "server.lock") && !name.contains('/')
}

fn exists(disk: &dyn Disk, path: &Path) -> Result<bool, IoError> {
    match disk.metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(IoError::at("look at", path)(error)),
    }
}

/// Removes a folder inside `remote`, if it exists.
fn remove(disk: &dyn Disk, dir: &ExecutionDir, name: &str) -> Result<(), IoError> {
    let folder = folder(dir);
    if !exists(disk, &folder.join(name))? {
        return Ok(());
    }
    let removed = disk
        .open_folder(&folder)
        .and_then(|folder| folder.remove(OsStr::new(name)));
    removed.map_err(IoError::at("remove", &folder.join(name)))
}

fn folder(dir: &ExecutionDir) -> PathBuf {
    dir.state_dir().join(REMOTE)
}

fn ready(dir: &ExecutionDir) -> PathBuf {
    folder(dir).join(READY)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::checkpoint::MemoryCheckpoints;
    use crate::world::disk::{Fault, FaultyDisk, RealDisk};

    /// A directory in which a record waits that has `both` and `new` and not `old`.
    fn prepared(folder: &Path) -> ExecutionDir {
        let dir = ExecutionDir::new(folder.to_owned());
        let write = |path: PathBuf, text: &str| {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(dir.state_dir().join("both/file"), "before");
        write(dir.state_dir().join("old"), "before");
        write(dir.state_dir().join("token"), "ours");
        let new = place(&dir).state_dir();
        write(new.join("both/file"), "after");
        write(new.join("new"), "after");
        dir
    }

    fn arrival() -> WorkspaceSwap {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        WorkspaceSwap {
            replaced: names(&["both", "new"]),
            removed: names(&["old", "../x", "remote"]),
            checkpoint: None,
            left: None,
        }
    }

    /// The entries and what they hold.
    fn seen(dir: &ExecutionDir) -> String {
        let text = |name: &str| std::fs::read_to_string(dir.state_dir().join(name)).unwrap_or_default();
        ["both/file", "old", "new", "token"].map(text).join(" ")
    }

    // covers: RUN-26
    #[test]
    fn what_was_announced_is_put_in_place_however_often_that_is_interrupted() {
        let mut steps = 0;
        for n in 0.. {
            let folder = tempfile::tempdir().unwrap();
            let dir = prepared(folder.path());
            let faulty = FaultyDisk::new(Arc::new(RealDisk), Fault::CrashAt(n));
            let announced = announce(&faulty, &dir, &arrival());
            let interrupted = announced.and_then(|()| swap(&faulty, &dir).map(|arrival| arrival.unwrap()));
            let done = interrupted.and_then(|arrival| {
                let store = MemoryCheckpoints::new(folder.path());
                finish_swap(&faulty, &dir, &store, &arrival, Timestamp::from_millis(0)).map_err(|error| {
                    match error {
                        ArrivalError::Io(error) => error,
                        error => panic!("{error}"),
                    }
                })
            });
            let world = World::real();
            let counted = finish(&world, &dir).unwrap();
            match (counted, done.is_ok()) {
                // It was never announced.
                (false, false) if seen(&dir) == "before before  ours" => {}
                _ => assert_eq!(seen(&dir), "after  after ours", "crash at {n}"),
            }
            assert!(!finish(&world, &dir).unwrap(), "it is finished");
            if done.is_ok() {
                assert!(list(&dir).is_empty(), "{:?}", list(&dir));
                break;
            }
            // The next pull.
            discard(&RealDisk, &dir).unwrap();
            prepared(folder.path());
            announce(&RealDisk, &dir, &arrival()).unwrap();
            assert!(finish(&world, &dir).unwrap());
            assert_eq!(seen(&dir), "after  after ours", "crash at {n}");
            steps = n;
        }
        assert!(steps > 8, "{steps}");
    }

    // covers: RUN-26, CLI-62
    #[test]
    fn no_link_has_files_moved_in_or_out() {
        for link in ["arriving/.hankweave", "arriving", "before"] {
            let folder = tempfile::tempdir().unwrap();
            let dir = prepared(folder.path());
            announce(&RealDisk, &dir, &arrival()).unwrap();
            let elsewhere = folder.path().join("elsewhere");
            std::fs::create_dir_all(elsewhere.join(".hankweave")).unwrap();
            std::fs::write(elsewhere.join("new"), "of others").unwrap();
            std::fs::write(elsewhere.join(".hankweave/new"), "of others").unwrap();
            let link = self::folder(&dir).join(link);
            let _ = std::fs::remove_dir_all(&link);
            std::os::unix::fs::symlink(&elsewhere, &link).unwrap();
            assert!(finish(&World::real(), &dir).is_err(), "{}", link.display());
            assert!(elsewhere.join("new").exists() && elsewhere.join(".hankweave/new").exists());
            assert!(!elsewhere.join("old").exists());
        }
    }

    fn list(dir: &ExecutionDir) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder(dir)).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    // covers: RUN-27
    #[test]
    fn sessions_that_stayed_elsewhere_are_known() {
        let folder = tempfile::tempdir().unwrap();
        let dir = prepared(folder.path());
        let (left, came) = (SessionId::new("s-1").unwrap(), SessionId::new("s-2").unwrap());
        note_elsewhere(&RealDisk, &dir, std::slice::from_ref(&left)).unwrap();
        assert!(is_elsewhere(&RealDisk, &dir, &left) && !is_elsewhere(&RealDisk, &dir, &came));
        note_elsewhere(&RealDisk, &dir, &[]).unwrap();
        assert!(!is_elsewhere(&RealDisk, &dir, &left));
    }
}
