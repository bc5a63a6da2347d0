//! Folder of spare records, and the owner of each.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use super::super::{DirLock, DirLockGuard, Disk, RealDisk};
use crate::world::environment::Environment;

/// The file that tells people and later starts which workspace it is of.
const WORKSPACE: &str = "workspace";

/// A longer path is none, in bytes.
const MAX_PATH_BYTES: u64 = 64 << 10;

/// The folder of one spare record.
pub(super) struct Claimed {
    pub(super) folder: PathBuf,
    /// `None` when another process holds it.
    pub(super) lock: Option<Arc<dyn DirLockGuard>>,
    /// No other directory can have been called the same.
    pub(super) is_certain: bool,
}

/// The folder of all spare records of the user: `hankweave/records` in `XDG_STATE_HOME`, which is `~/.local/state` unless it is set.
#[must_use]
pub fn records_folder(environment: &Environment) -> Option<PathBuf> {
    let absolute = |name| {
        let path = Path::new(environment.get(name)?);
        path.is_absolute().then(|| path.to_owned())
    };
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")));
    Some(state?.join("hankweave").join("records"))
}

/// Takes the folder for the workspace `root` and locks it; `None` where folders cannot be locked.
pub(super) fn claim(records: &Path, root: &Path) -> io::Result<Option<Claimed>> {
    // There it would go with the rest.
    if records.starts_with(root) {
        return Ok(None);
    }
    let (name, is_certain) = name_of(root)?;
    let folder = records.join(name);
    loop {
        match RealDisk.make_private_dirs(&folder) {
            // Another process has just removed an empty folder on the way.
            Err(error) if error.kind() == io::ErrorKind::NotFound => RealDisk.make_private_dirs(&folder)?,
            made => made?,
        }
        let lock = match RealDisk.lock_dir(&folder) {
            Ok(DirLock::Acquired(lock)) => Some(lock),
            Ok(DirLock::Held) => None,
            Ok(DirLock::Unsupported) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        // Somebody may have removed it between the two steps.
        if lock.as_ref().is_some_and(|lock| !lock.still_guards()) {
            continue;
        }
        if lock.is_some() {
            fs::write(folder.join(WORKSPACE), root.as_os_str().as_encoded_bytes())?;
        }
        return Ok(Some(Claimed {
            folder,
            lock,
            is_certain,
        }));
    }
}

/// Returns a name that no other directory has: its number and its birth. Where the system has no time of birth, another one may get the number later.
fn name_of(root: &Path) -> io::Result<(String, bool)> {
    let metadata = fs::metadata(root)?;
    let born = metadata
        .created()
        .ok()
        .and_then(|born| born.duration_since(UNIX_EPOCH).ok());
    let name = match born {
        Some(born) => format!("{:x}-{:x}", metadata.ino(), born.as_nanos()),
        None => format!("{:x}-{:x}-unborn", metadata.ino(), metadata.dev()),
    };
    Ok((name, born.is_some()))
}

/// Removes what killed processes have left of workspaces that are no more.
pub(super) fn prune(records: &Path) {
    for name in RealDisk.list_dir(records).unwrap_or_default() {
        let folder = records.join(&name);
        let Ok(root) = RealDisk.read(&folder.join(WORKSPACE), MAX_PATH_BYTES) else {
            continue;
        };
        let root = PathBuf::from(String::from_utf8_lossy(&root).into_owned());
        let is_there = match name_of(&root) {
            Ok((found, _)) => name == *found,
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        };
        if is_there {
            continue;
        }
        // Locked by whoever works there, under another name.
        if let Ok(DirLock::Acquired(_lock)) = RealDisk.lock_dir(&folder) {
            remove(&folder);
        }
    }
}

/// Removes a spare record. What stays is removed by a later start.
pub(super) fn remove(folder: &Path) {
    if let Err(error) = fs::remove_dir_all(folder)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, folder = %folder.display(), "a spare record is left behind");
    }
}

/// Removes the folder of all records and the one around it when nothing is in them.
pub(super) fn tidy(records: &Path) {
    for folder in records.ancestors().take(2) {
        // What others have in it stays.
        if fs::remove_dir(folder).is_err() {
            break;
        }
    }
}
