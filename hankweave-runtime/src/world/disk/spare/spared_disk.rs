//! The real disk, which keeps state directories twice.

use std::cell::Cell;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::{AppendFile, DirLock, DirLockGuard, Disk, Folder, Metadata, RealDisk};
use super::file::SparedFile;
use super::{MOST_TRIES, Spare, Spares};

/// The real file system, with a spare record of each state directory that [`Spares`] keeps.
#[derive(Debug, Default)]
pub struct SparedDisk {
    spares: Spares,
}

impl SparedDisk {
    /// The disk, and where spare records are.
    #[must_use]
    pub fn new(spares: Spares) -> Self {
        Self { spares }
    }

    /// Does a step, again when what it did not find has been put back.
    fn find<T>(&self, path: &Path, step: impl Fn() -> io::Result<T>) -> io::Result<T> {
        for _ in 1..MOST_TRIES {
            match step() {
                Err(error)
                    if error.kind() == io::ErrorKind::NotFound
                        && self.spares.of(path).is_some_and(|spare| spare.mend(path)) => {}
                done => return done,
            }
        }
        step()
    }

    /// Runs a step after which `then` keeps its result twice. Nothing is put back between the two.
    fn change<T>(
        &self,
        (path, place): (&Path, &Path),
        step: impl Fn() -> io::Result<T>,
        then: impl Fn(&Spare),
    ) -> io::Result<T> {
        let Some(spare) = self.spares.of(place) else {
            return step();
        };
        self.find(path, || {
            spare.with(|_| {
                let done = step()?;
                then(&spare);
                Ok(done)
            })
        })
    }

    /// Runs a step that makes `made`, again when that is gone before it is kept.
    fn make(&self, (path, made): (&Path, &Path), step: impl Fn() -> io::Result<()>) -> io::Result<()> {
        for _ in 1..MOST_TRIES {
            let is_kept = Cell::new(true);
            self.change((path, made), &step, |spare| is_kept.set(spare.keep(made)))?;
            if is_kept.get() {
                break;
            }
        }
        Ok(())
    }

    /// Puts back what would have been at `path`, so that nothing is begun anew there.
    fn ensure(&self, path: &Path) -> Option<Arc<Spare>> {
        let spare = self.spares.of(path)?;
        if RealDisk.metadata(path).is_err() {
            spare.mend(path);
        }
        Some(spare)
    }
}

impl Disk for SparedDisk {
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        self.find(path, || RealDisk.read(path, limit))
    }

    fn read_at(&self, path: &Path, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        self.find(path, || RealDisk.read_at(path, offset, length))
    }

    fn create_new(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.make((path, path), || RealDisk.create_new(path, bytes))
    }

    fn open_append(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        let spare = self.ensure(path);
        let file = self.find(path, || RealDisk.open_append(path))?;
        Ok(match spare {
            Some(spare) => SparedFile::boxed(file, path, spare),
            None => file,
        })
    }

    fn create_append(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        let file = self.find(path, || RealDisk.create_append(path))?;
        Ok(match self.spares.of(path) {
            Some(spare) => SparedFile::boxed(file, path, spare),
            None => file,
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let rename = || RealDisk.rename(from, to);
        self.change((from, to), rename, |spare| spare.moved(from, to))
    }

    fn link_or_copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.make((from, to), || RealDisk.link_or_copy(from, to))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let remove = || RealDisk.remove_file(path);
        match self.spares.of(path) {
            Some(spare) => spare.with(|_| {
                spare.forget(path);
                remove()
            }),
            None => remove(),
        }
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.find(path, || RealDisk.sync_dir(path))
    }

    fn create_dir_private(&self, path: &Path) -> io::Result<()> {
        self.find(path, || RealDisk.create_dir_private(path))
    }

    fn make_dir_private(&self, path: &Path) -> io::Result<()> {
        self.find(path, || RealDisk.make_dir_private(path))
    }

    fn make_private_dirs(&self, path: &Path) -> io::Result<()> {
        self.ensure(path);
        RealDisk.make_private_dirs(path)
    }

    fn make_dirs(&self, path: &Path) -> io::Result<PathBuf> {
        RealDisk.make_dirs(path)
    }

    fn list_dir(&self, path: &Path) -> io::Result<Vec<OsString>> {
        self.find(path, || RealDisk.list_dir(path))
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        self.find(path, || RealDisk.metadata(path))
    }

    fn metadata_followed(&self, path: &Path) -> io::Result<Metadata> {
        RealDisk.metadata_followed(path)
    }

    fn real_path(&self, path: &Path) -> io::Result<PathBuf> {
        RealDisk.real_path(path)
    }

    fn open_folder(&self, path: &Path) -> io::Result<Box<dyn Folder>> {
        self.find(path, || RealDisk.open_folder(path))
    }

    fn lock_dir(&self, path: &Path) -> io::Result<DirLock> {
        let lock = RealDisk.lock_dir(path)?;
        let spare = self.spares.of(path).filter(|spare| spare.state_dir == path);
        let (DirLock::Acquired(guard), Some(spare)) = (&lock, spare) else {
            return Ok(lock);
        };
        spare.inner().guard = Some(Arc::clone(guard));
        Ok(DirLock::Acquired(Arc::new(SparedLock(spare))))
    }

    fn spares(&self) -> Option<&Spares> {
        Some(&self.spares)
    }
}

/// The lock on a state directory, also on one that was put back.
#[derive(Debug)]
struct SparedLock(Arc<Spare>);

impl DirLockGuard for SparedLock {
    fn still_guards(&self) -> bool {
        self.0.still_guards()
    }

    fn is_removed(&self) -> bool {
        let inner = self.0.inner();
        inner.guard.as_ref().is_some_and(|guard| guard.is_removed())
    }
}

impl Drop for SparedLock {
    fn drop(&mut self) {
        self.0.inner().guard = None;
    }
}
