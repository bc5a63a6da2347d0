//! The folder of all spare records, and in it the folder of each: its name, its lock, and its removal.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Access, access};
use rustix::process::geteuid;

use super::super::{DirLock, DirLockGuard, Disk, RealDisk, parent};
use crate::world::environment::Environment;
use crate::world::identity::{Identity as _, SystemIdentity};

/// File in the folder of a spare record, with the path of the workspace, for people and for [`prune`].
const WORKSPACE: &str = "workspace";

/// Longest path in that file, in bytes.
const MAX_PATH_BYTES: u64 = 64 << 10;

/// The folder of one spare record.
pub(super) struct ClaimedFolder {
    pub(super) folder: PathBuf,
    /// `None` when another process holds it.
    pub(super) lock: Option<Arc<dyn DirLockGuard>>,
    /// Whether the name of the folder can be that of this workspace only.
    pub(super) is_certain: bool,
}

/// Returns the folder of all spare records of the user: `hankweave/records` in `XDG_STATE_HOME`, else in `~/.local/state`.
/// Without a writable home it is in [`Environment::fallback_state`].
#[must_use]
pub fn records_folder(environment: &Environment) -> Option<PathBuf> {
    let absolute = |name| {
        let path = Path::new(environment.get(name)?);
        path.is_absolute().then(|| path.to_owned())
    };
    let in_home = || Some(absolute("HOME")?.join(".local/state")).filter(|state| can_be_made(state));
    let state = absolute("XDG_STATE_HOME").or_else(in_home);
    let ours = state.map(|state| state.join("hankweave"));
    let ours = ours.or_else(|| environment.fallback_state().map(Path::to_owned));
    Some(ours?.join("records"))
}

/// Whether this user may write to `folder` or, when it is missing, to the closest folder around it.
fn can_be_made(folder: &Path) -> bool {
    let existing = folder.ancestors().find(|folder| folder.exists());
    existing.is_some_and(|folder| access(folder, Access::WRITE_OK | Access::EXEC_OK).is_ok())
}

/// Makes and locks the folder for the workspace `root`; `None` if there is no safe place for it, or if folders cannot be locked.
pub(super) fn claim(records: &Path, root: &Path) -> io::Result<Option<ClaimedFolder>> {
    // In the workspace it would be removed with the state directory.
    if records.starts_with(root) {
        return Ok(None);
    }
    let (name, is_certain) = name_of(root)?;
    let folder = records.join(name);
    loop {
        match RealDisk.make_private_dirs(&folder) {
            // Another process has just removed an empty folder of the path.
            Err(error) if error.kind() == io::ErrorKind::NotFound => RealDisk.make_private_dirs(&folder)?,
            made => made?,
        }
        if !is_private(parent(records))? {
            return Ok(None);
        }
        let lock = match RealDisk.lock_dir(&folder) {
            Ok(DirLock::Acquired(lock)) => Some(lock),
            Ok(DirLock::Held) => None,
            Ok(DirLock::Unsupported) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        // Another process may have removed the folder before we locked it.
        if lock.as_ref().is_some_and(|lock| !lock.still_guards()) {
            continue;
        }
        if lock.is_some() {
            fs::write(folder.join(WORKSPACE), root.as_os_str().as_encoded_bytes())?;
        }
        return Ok(Some(ClaimedFolder {
            folder,
            lock,
            is_certain,
        }));
    }
}

/// Whether `folder` belongs to this user, also as a link, and only this user may write to it. In a shared folder such as
/// `/var/tmp` another user may have made it.
fn is_private(folder: &Path) -> io::Result<bool> {
    let (named, real) = (fs::symlink_metadata(folder)?, fs::metadata(folder)?);
    let owner = geteuid().as_raw();
    Ok(named.uid() == owner && real.uid() == owner && real.mode() & 0o022 == 0)
}

/// Whether the spare record in `folder` is that of the workspace `root`.
pub(super) fn is_of(folder: &Path, root: &Path) -> bool {
    name_of(root).is_ok_and(|(name, _)| folder.file_name() == Some(name.as_ref()))
}

/// Returns the existing folder of the spare record of `root`; `None` also if its name may be that of another workspace.
pub(super) fn existing(records: &Path, root: &Path) -> Option<PathBuf> {
    let (name, is_certain) = name_of(root).ok()?;
    let folder = records.join(name);
    (is_certain && folder.is_dir()).then_some(folder)
}

/// Returns the [name](hankweave_core::discovery::directory_name) of a directory, and whether it is certain to mean this
/// directory. On a file system without times of birth another directory may get the inode later.
fn name_of(root: &Path) -> io::Result<(String, bool)> {
    Ok(match SystemIdentity.directory(root) {
        Some(name) => (name, true),
        None => {
            let metadata = fs::metadata(root)?;
            (format!("{:x}-{:x}-unborn", metadata.ino(), metadata.dev()), false)
        }
    })
}

/// Removes the spare records that killed processes have left of workspaces that no longer exist.
pub(super) fn prune(records: &Path) {
    for name in RealDisk.list_dir(records).unwrap_or_default() {
        let folder = records.join(&name);
        let Ok(root) = RealDisk.read(&folder.join(WORKSPACE), MAX_PATH_BYTES) else {
            continue;
        };
        let root = PathBuf::from(String::from_utf8_lossy(&root).into_owned());
        let may_exist = match name_of(&root) {
            Ok((found, _)) => name == *found,
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        };
        if may_exist {
            continue;
        }
        // A locked folder is in use: a process works in the workspace, which was moved.
        if let Ok(DirLock::Acquired(_lock)) = RealDisk.lock_dir(&folder) {
            remove(&folder);
        }
    }
}

/// Removes a spare record, or a folder in one.
pub(super) fn remove(folder: &Path) {
    // A later start removes what stays. A failure is not logged, because our own log may be part of the record.
    let _ = fs::remove_dir_all(folder);
}

/// Removes the folder of all records if it is empty, and then its parent if that is empty.
pub(super) fn tidy(records: &Path) {
    for folder in records.ancestors().take(2) {
        // Fails for a folder with entries.
        if fs::remove_dir(folder).is_err() {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    // covers: P11
    #[test]
    fn spare_records_are_where_the_user_may_write() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().to_str().unwrap();
        let records = |variables: &[(&str, &str)]| records_folder(&variables.iter().copied().collect());
        let expected = |place: &str| Some(folder.path().join(place));
        assert_eq!(
            records(&[("HOME", home)]),
            expected(".local/state/hankweave/records")
        );
        assert_eq!(
            records(&[("HOME", "/proc"), ("XDG_STATE_HOME", home)]),
            expected("hankweave/records")
        );
        for nowhere in [
            &[][..],
            &[("HOME", "")],
            &[("HOME", "home")],
            &[("XDG_STATE_HOME", "state")],
        ] {
            assert_eq!(records(nowhere), None, "{nowhere:?}");
        }
    }

    /// In a folder that all users share, another one could have made ours.
    // covers: P11, X5
    #[test]
    fn a_folder_that_others_may_write_to_holds_no_spare_record() {
        let folder = tempfile::tempdir().unwrap();
        let (shared, root) = (folder.path().join("shared"), folder.path().join("root"));
        RealDisk.make_private_dirs(&shared).unwrap();
        RealDisk.make_private_dirs(&root).unwrap();
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(claim(&shared.join("records"), &root).unwrap().is_none());
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o700)).unwrap();
        assert!(claim(&shared.join("records"), &root).unwrap().is_some());
    }
}
