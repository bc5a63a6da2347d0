//! The real disk, which keeps state directories twice.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::{AppendFile, DirLock, DirLockGuard, Disk, Folder, Metadata, RealDisk};
use super::file::SparedFile;
use super::{Inner, Spare, Spares};

/// The real file system, with a spare record of each state directory that [`Spares`] keeps.
///
/// A step is one operation of the real disk. If it finds its file missing, the file is put back and the step is run again. If
/// the removal still continues, the step is run in the spare record, from where its result is put back later.
#[derive(Debug, Default)]
pub struct SparedDisk {
    spares: Spares,
}

/// One of the two places of a file: the state directory or the spare record.
#[derive(Debug, Clone, Copy)]
enum Side<'s> {
    StateDir,
    Spare(&'s Spare),
}

impl Side<'_> {
    /// Returns the path on this side of the file that is at `path` in the state directory.
    fn of<'p>(&self, path: &'p Path) -> Cow<'p, Path> {
        match self {
            Self::StateDir => Cow::Borrowed(path),
            Self::Spare(spare) => spare.spare_path(path).map_or(Cow::Borrowed(path), Cow::Owned),
        }
    }
}

impl SparedDisk {
    /// Returns a disk that keeps the files that are written through it in `spares`, too.
    #[must_use]
    pub fn new(spares: Spares) -> Self {
        Self { spares }
    }

    /// Runs a step that needs `path`, on the side that has it.
    fn find<T>(&self, path: &Path, step: impl Fn(Side<'_>) -> io::Result<T>) -> io::Result<T> {
        let is_missing = |done: &io::Result<T>| {
            done.as_ref()
                .is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        };
        let done = step(Side::StateDir);
        if !is_missing(&done) {
            return done;
        }
        let Some(spare) = self.spares.of(path).filter(|spare| spare.recover(path)) else {
            return done;
        };
        // Again, also if `recover` put nothing back: another thread may have done so.
        let done = step(Side::StateDir);
        match is_missing(&done) {
            true => step(Side::Spare(&spare)),
            false => done,
        }
    }

    /// Runs a step that needs `path` and makes `made`. Then `keep` keeps `made` twice; if it returns `false`, because `made` no
    /// longer exists, the step is run in the spare record. Nothing is put back between step and `keep`.
    fn change(
        &self,
        (path, made): (&Path, &Path),
        step: impl Fn(Side<'_>) -> io::Result<()>,
        keep: impl Fn(&Spare, &mut Inner) -> bool,
    ) -> io::Result<()> {
        let Some(spare) = self.spares.of(made) else {
            return step(Side::StateDir);
        };
        self.find(path, |side| {
            spare.with(|inner| {
                step(side)?;
                match side {
                    Side::StateDir if !keep(&spare, inner) => step(Side::Spare(&spare)),
                    _ => Ok(()),
                }
            })
        })
    }

    /// Opens a file for appending with `open`, and keeps it twice.
    fn append_to(
        &self,
        path: &Path,
        open: impl Fn(&Path) -> io::Result<Box<dyn AppendFile>>,
    ) -> io::Result<Box<dyn AppendFile>> {
        let spare = self.spares.of(path);
        // If only the spare record has the file, opening it in the state directory would make an empty one.
        let file = match spare.as_ref().filter(|spare| spare.is_only_in_spare(path)) {
            Some(spare) => open(&Side::Spare(spare).of(path))?,
            None => self.find(path, |side| open(&side.of(path)))?,
        };
        Ok(match spare {
            Some(spare) => SparedFile::boxed(file, path, spare),
            None => file,
        })
    }
}

impl Disk for SparedDisk {
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        self.find(path, |side| RealDisk.read(&side.of(path), limit))
    }

    fn read_at(&self, path: &Path, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        self.find(path, |side| RealDisk.read_at(&side.of(path), offset, length))
    }

    fn create_new(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let create = |side: Side<'_>| RealDisk.create_new(&side.of(path), bytes);
        self.change((path, path), create, |spare, inner| spare.keep(inner, path))
    }

    fn open_append(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        self.append_to(path, |path| RealDisk.open_append(path))
    }

    fn create_append(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        self.append_to(path, |path| RealDisk.create_append(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let rename = |side: Side<'_>| RealDisk.rename(&side.of(from), &side.of(to));
        self.change((from, to), rename, |spare, inner| {
            spare.keep_moved(inner, from, to)
        })
    }

    fn link_or_copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        let link = |side: Side<'_>| RealDisk.link_or_copy(&side.of(from), &side.of(to));
        self.change((from, to), link, |spare, inner| spare.keep(inner, to))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let remove = || RealDisk.remove_file(path);
        match self.spares.of(path) {
            Some(spare) => spare.with(|inner| {
                let was_kept = spare.forget(inner, path);
                match remove() {
                    Err(error) if was_kept && error.kind() == io::ErrorKind::NotFound => Ok(()),
                    removed => removed,
                }
            }),
            None => remove(),
        }
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.find(path, |side| RealDisk.sync_dir(&side.of(path)))
    }

    fn create_dir_private(&self, path: &Path) -> io::Result<()> {
        self.find(path, |side| RealDisk.create_dir_private(&side.of(path)))
    }

    fn make_dir_private(&self, path: &Path) -> io::Result<()> {
        self.find(path, |side| RealDisk.make_dir_private(&side.of(path)))
    }

    fn make_private_dirs(&self, path: &Path) -> io::Result<()> {
        let Some(spare) = self.spares.of(path) else {
            return RealDisk.make_private_dirs(path);
        };
        spare.recover(path);
        match RealDisk.make_private_dirs(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && spare.spare_path(path).is_some() => {}
            made => made?,
        }
        spare.with(|inner| spare.make_folder(inner, path));
        Ok(())
    }

    fn make_dirs(&self, path: &Path) -> io::Result<PathBuf> {
        RealDisk.make_dirs(path)
    }

    fn list_dir(&self, path: &Path) -> io::Result<Vec<OsString>> {
        self.find(path, |side| RealDisk.list_dir(&side.of(path)))
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        self.find(path, |side| RealDisk.metadata(&side.of(path)))
    }

    fn metadata_followed(&self, path: &Path) -> io::Result<Metadata> {
        RealDisk.metadata_followed(path)
    }

    fn real_path(&self, path: &Path) -> io::Result<PathBuf> {
        RealDisk.real_path(path)
    }

    fn open_folder(&self, path: &Path) -> io::Result<Box<dyn Folder>> {
        self.find(path, |side| RealDisk.open_folder(&side.of(path)))
    }

    fn lock_dir(&self, path: &Path) -> io::Result<DirLock> {
        let lock = RealDisk.lock_dir(path)?;
        let spare = self.spares.of(path).filter(|spare| spare.state_dir == path);
        let (DirLock::Acquired(guard), Some(spare)) = (&lock, spare) else {
            return Ok(lock);
        };
        spare.with(|inner| inner.guard = Some(Arc::clone(guard)));
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
        self.0
            .with(|inner| inner.guard.as_ref().is_some_and(|guard| guard.is_removed()))
    }
}

impl Drop for SparedLock {
    fn drop(&mut self) {
        self.0.with(|inner| inner.guard = None);
    }
}
