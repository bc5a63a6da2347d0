//! Staging folders, whose content appears at its final path all at once (CLI-52).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hankweave_runtime::world::World;
use hankweave_runtime::world::disk::{
    DirLock, DirLockGuard, Disk, FileKind, IoError, parent, sync_file_system,
};

use crate::error::RemoteError;
use crate::files::list;

/// End of the names of unfinished clones, before the random text.
const UNFINISHED: &str = ".hankweave-clone-";

/// Folder next to the final path of its content. A drop before `finish` removes it; the next process removes what a killed one left.
#[derive(Debug)]
pub(crate) struct StagingDir {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    lock: Option<Arc<dyn DirLockGuard>>,
}

impl StagingDir {
    /// Creates a folder for `place`, which is absolute and holds nothing yet.
    pub(crate) fn next_to(world: &World, place: &Path) -> Result<Self, RemoteError> {
        let disk = &*world.disk;
        let folder = parent(place);
        disk.make_dirs(folder).map_err(IoError::at("make", folder))?;
        let name = place.file_name().unwrap_or_default().to_string_lossy();
        let begin = format!(".{name}{UNFINISHED}");
        for left in list(disk, folder)? {
            if left.to_str().is_some_and(|left| left.starts_with(&begin)) {
                sweep(disk, &folder.join(left))?;
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

    /// Renames the folder to `place`; durable on return.
    pub(crate) fn finish(mut self, place: &Path) -> Result<(), RemoteError> {
        sync_everything(&self.path).map_err(IoError::at("sync", &self.path))?;
        self.disk
            .rename(&self.path, place)
            .map_err(IoError::at("make", place))?;
        let folder = parent(place).to_owned();
        // Keeps `drop` from removing it.
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
            // Ignored: the next clone tries again.
            let _ = remove(&*self.disk, &self.path);
        }
    }
}

/// Removes a folder whose process no longer exists: its lock is free.
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

/// Whether `place` exists and is not an empty folder.
pub(crate) fn is_occupied(disk: &dyn Disk, place: &Path) -> Result<bool, RemoteError> {
    match disk.metadata(place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(IoError::at("look at", place)(error).into()),
        Ok(found) if found.kind == FileKind::Directory => Ok(!list(disk, place)?.is_empty()),
        Ok(_) => Ok(true),
    }
}

/// Makes git's output durable.
#[expect(
    clippy::disallowed_types,
    reason = "git writes real files, which one sync of the file system makes durable; the seam has none"
)]
pub(crate) fn sync_everything(folder: &Path) -> io::Result<()> {
    sync_file_system(std::fs::File::open(folder)?)
}
