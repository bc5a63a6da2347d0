//! Remembered remote of an execution directory, in its file `remote.json`, and the locks of a push or a pull.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use hankweave_core::time::Timestamp;
use hankweave_runtime::ExecutionDir;
use hankweave_runtime::world::disk::{
    DirLock, DirLockGuard, Disk, IoError, read_if_present, remove_if_present, replace,
};
use serde::{Deserialize, Serialize};

use crate::error::RemoteError;
use crate::execution::RemoteExecution;

/// Longest `remote.json` that is read, in bytes; ours are shorter.
const MAX_BYTES: u64 = 64 << 10;

/// Remote of an execution directory, and the last commit seen there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RemoteTracking {
    /// Address of the remote, as passed to git.
    pub url: String,
    /// Name of the history on the remote.
    pub execution: RemoteExecution,
    /// Record that this machine pushed last or started with; `None` before the first push.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// Whether a clone or a pull has copied files of the remote to this machine.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub arrived: bool,
    /// Time of the last clone or pull; `None` if there was none, or an older version did it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrived_at: Option<Timestamp>,
}

/// Returns the remembered remote of the directory; `None` when it has none.
///
/// # Errors
///
/// [`RemoteError::Io`] when the file cannot be read, [`RemoteError::Unreadable`] when hankweave did not write it.
pub fn remembered(disk: &dyn Disk, dir: &ExecutionDir) -> Result<Option<RemoteTracking>, RemoteError> {
    let path = file(dir);
    let read = read_if_present(disk, &path, MAX_BYTES).map_err(IoError::at("read", &path))?;
    let understood = read.map(|bytes| serde_json::from_slice(&bytes));
    understood.transpose().map_err(|error| RemoteError::Unreadable {
        why: format!("`{}`: {error}", path.display()),
    })
}

impl RemoteTracking {
    /// Writes `remote.json`; durable on return.
    pub(crate) fn write(&self, disk: &dyn Disk, dir: &ExecutionDir) -> Result<(), RemoteError> {
        let path = file(dir);
        let text = serde_json::to_vec(self).map_err(|error| RemoteError::Unreadable {
            why: error.to_string(),
        })?;
        replace(disk, &path, &text).map_err(|error| IoError::at("write", &path)(error).into())
    }
}

/// Takes the lock of pushes and pulls in the directory; `None` if the file system cannot lock. Then removes the locks of our
/// references that a killed push or pull left.
pub(crate) fn lock(
    disk: &dyn Disk,
    dir: &ExecutionDir,
) -> Result<Option<Arc<dyn DirLockGuard>>, RemoteError> {
    let folder = folder(dir);
    let locked = disk
        .make_private_dirs(&folder)
        .and_then(|()| disk.lock_dir(&folder));
    let lock = match locked.map_err(IoError::at("lock", &folder))? {
        DirLock::Acquired(lock) => Some(lock),
        DirLock::Unsupported => None,
        DirLock::Held => {
            return Err(RemoteError::Busy {
                directory: dir.root().to_owned(),
            });
        }
    };
    for reference in [WRITTEN, SEEN] {
        let reference_lock = dir.checkpoints().join(format!("{reference}.lock"));
        remove_if_present(disk, &reference_lock).map_err(IoError::at("remove", &reference_lock))?;
    }
    Ok(lock)
}

/// Takes the lock of the state directory, which keeps runs out; `None` if the file system cannot lock.
pub(crate) fn keep_runs_out(
    disk: &dyn Disk,
    dir: &ExecutionDir,
) -> Result<Option<Arc<dyn DirLockGuard>>, RemoteError> {
    let state_dir = dir.state_dir();
    match disk.lock_dir(&state_dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(RemoteError::NothingRecorded),
        locked => match locked.map_err(IoError::at("lock", &state_dir))? {
            DirLock::Acquired(lock) => Ok(Some(lock)),
            DirLock::Unsupported => Ok(None),
            DirLock::Held => Err(RemoteError::Live {
                directory: dir.root().to_owned(),
            }),
        },
    }
}

/// Reference in the checkpoint repository to the record that was written last.
pub(crate) const WRITTEN: &str = "refs/hankweave/record";

/// Reference in the checkpoint repository to the record that was fetched last.
pub(crate) const SEEN: &str = "refs/hankweave/seen";

/// Name of our file in the state directory.
pub(crate) const FILE: &str = "remote.json";

fn folder(dir: &ExecutionDir) -> PathBuf {
    dir.state_dir().join("remote")
}

fn file(dir: &ExecutionDir) -> PathBuf {
    dir.state_dir().join(FILE)
}
