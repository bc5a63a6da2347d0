//! Folders of ours in which something is made that appears elsewhere as a whole (CLI-52).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hankweave_runtime::world::World;
use hankweave_runtime::world::disk::{
    DirLock, DirLockGuard, Disk, FileKind, IoError, parent, sync_file_system,
};

use crate::error::RemoteError;
use crate::files::list;

/// How names of unfinished clones end, before the random text.
const UNFINISHED: &str = ".hankweave-clone-";

/// A folder beside the place where its content will be. Dropped before that, it is removed; what a killed process left is removed by the next one.
#[derive(Debug)]
pub(crate) struct StagingDir {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    lock: Option<Arc<dyn DirLockGuard>>,
}

impl StagingDir {
    /// Makes one for `place`, which is absolute and holds nothing yet.
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

    /// Gives its content the name `place`; durable on return.
    pub(crate) fn finish(mut self, place: &Path) -> Result<(), RemoteError> {
        sync_everything(&self.path).map_err(IoError::at("sync", &self.path))?;
        self.disk
            .rename(&self.path, place)
            .map_err(IoError::at("make", place))?;
        let folder = parent(place).to_owned();
        // Nothing is left to be removed.
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
            // The next clone tries again.
            let _ = remove(&*self.disk, &self.path);
        }
    }
}

/// Removes what a process left that is gone: nobody holds its lock.
fn sweep(disk: &dyn Disk, path: &Path) -> Result<(), IoError> {
    match disk.lock_dir(path) {
        Ok(DirLock::Acquired(_)) => remove(disk, path).map_err(IoError::at("remove", path)),
        Ok(DirLock::Held | DirLock::Unsupported) => Ok(()),
        // Somebody else has removed it, or it is none of ours.
        Err(_) => Ok(()),
    }
}

fn remove(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default();
    disk.open_folder(parent(path))?.remove(name)
}

/// Whether something is at this place that is no empty folder.
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
