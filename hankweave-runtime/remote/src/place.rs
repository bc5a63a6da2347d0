//! Staging folders of clones, whose content appears at its final path all at once (CLI-52).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hankweave_runtime::world::World;
use hankweave_runtime::world::disk::{
    DirLock, DirLockGuard, Disk, FileKind, IoError, parent, sync_file_system,
};

use crate::error::RemoteError;
use crate::files::list;

/// Middle of the name of a staging folder, between the name of the target and random text.
const UNFINISHED: &str = ".hankweave-clone-";

/// Folder next to the final path of its content. A drop before `finish` removes the folder; the next clone removes one that
/// a killed process left.
#[derive(Debug)]
pub(crate) struct StagingDir {
    disk: Arc<dyn Disk>,
    /// Path of the folder; empty once it is renamed.
    path: PathBuf,
    /// Shows other clones that the folder is in use; `None` if the file system cannot lock.
    lock: Option<Arc<dyn DirLockGuard>>,
}

impl StagingDir {
    /// Creates a folder for `target`, an absolute path that is free or an empty folder.
    pub(crate) fn next_to(world: &World, target: &Path) -> Result<Self, RemoteError> {
        let disk = &*world.disk;
        let folder = parent(target);
        disk.make_dirs(folder).map_err(IoError::at("make", folder))?;
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        let begin = format!(".{name}{UNFINISHED}");
        for name in list(disk, folder)? {
            if name.to_str().is_some_and(|name| name.starts_with(&begin)) {
                sweep(disk, &folder.join(name))?;
            }
        }
        let path = folder.join(format!("{begin}{}", world.ids.nonce()));
        disk.create_dir_private(&path)
            .map_err(IoError::at("make", &path))?;
        let lock = match disk.lock_dir(&path).map_err(IoError::at("lock", &path))? {
            DirLock::Acquired(lock) => Some(lock),
            DirLock::Held | DirLock::Unsupported => None,
        };
        Ok(Self {
            disk: Arc::clone(&world.disk),
            path,
            lock,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Renames the folder to `target`; durable on return.
    pub(crate) fn finish(mut self, target: &Path) -> Result<(), RemoteError> {
        sync_everything(&self.path).map_err(IoError::at("sync", &self.path))?;
        self.disk
            .rename(&self.path, target)
            .map_err(IoError::at("make", target))?;
        let folder = parent(target).to_owned();
        // Keeps `drop` from removing the renamed folder.
        self.path = PathBuf::new();
        self.disk
            .sync_dir(&folder)
            .map_err(IoError::at("sync", &folder))?;
        Ok(())
    }
}

impl Drop for StagingDir {
    fn drop(&mut self) {
        drop(self.lock.take());
        if !self.path.as_os_str().is_empty() {
            // A failure is ignored: the next clone removes the folder.
            let _ = remove(&*self.disk, &self.path);
        }
    }
}

/// Removes a staging folder if its lock is free, because its process no longer exists.
fn sweep(disk: &dyn Disk, path: &Path) -> Result<(), IoError> {
    match disk.lock_dir(path) {
        Ok(DirLock::Acquired(_)) => remove(disk, path).map_err(IoError::at("remove", path)),
        Ok(DirLock::Held | DirLock::Unsupported) => Ok(()),
        // Another process has removed it, or it is not a folder of ours.
        Err(_) => Ok(()),
    }
}

fn remove(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default();
    disk.open_folder(parent(path))?.remove(name)
}

/// Whether `target` exists and is not an empty folder.
pub(crate) fn is_occupied(disk: &dyn Disk, target: &Path) -> Result<bool, RemoteError> {
    match disk.metadata(target) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(IoError::at("look at", target)(error).into()),
        Ok(found) if found.kind == FileKind::Directory => Ok(!list(disk, target)?.is_empty()),
        Ok(_) => Ok(true),
    }
}

/// Makes everything in `folder` durable, also the files that git wrote.
#[expect(
    clippy::disallowed_types,
    reason = "git writes real files, which one sync of the file system makes durable; the seam has none"
)]
pub(crate) fn sync_everything(folder: &Path) -> io::Result<()> {
    sync_file_system(std::fs::File::open(folder)?)
}
