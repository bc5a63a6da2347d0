//! A disk that fails on purpose.

#![allow(dead_code, reason = "the tests of each crate plan the faults that they need")]

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hankweave_runtime::world::disk::{
    AppendFile, DirLock, Disk, Folder, Metadata, OpenFile, OpenedEntry, SharedFile, SyncFile,
};

/// Passes everything on to another disk until the planned fault, and counts what it sees.
///
/// Operations that change something or sync are counted, and apart from that all of them; the first has number 0.
#[derive(Debug, Clone)]
pub(crate) struct FaultyDisk {
    inner: Arc<dyn Disk>,
    faults: Arc<Faults>,
}

/// Fault, and its moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing.
    None,
    /// Directories cannot be locked.
    NoLocks,
    /// Operation `n` does not happen, or half of it when it writes; nothing works after that.
    CrashAt(u64),
    /// Operation `n` alone fails with this error; a write leaves half of its bytes on the disk.
    FailAt(u64, io::ErrorKind),
    /// Fails with an error number of the system, with `n` counted over all operations, including those that only look or read.
    ErrorAt(u64, i32),
}

#[derive(Debug)]
struct Faults {
    plan: Fault,
    operations: AtomicU64,
    all_operations: AtomicU64,
    syncs: AtomicU64,
    crashed: AtomicBool,
}

impl FaultyDisk {
    /// Wraps `inner`.
    #[must_use]
    pub(crate) fn new(inner: Arc<dyn Disk>, plan: Fault) -> Self {
        let faults = Arc::new(Faults {
            plan,
            operations: AtomicU64::new(0),
            all_operations: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
            crashed: AtomicBool::new(false),
        });
        Self { inner, faults }
    }

    /// Crashes now: nothing works from here on.
    pub(crate) fn crash(&self) {
        self.faults.crashed.store(true, Ordering::SeqCst);
    }

    /// How many changing operations were asked for so far.
    #[must_use]
    pub(crate) fn operations(&self) -> u64 {
        self.faults.operations.load(Ordering::SeqCst)
    }

    /// How many operations of any kind were asked for so far.
    #[must_use]
    pub(crate) fn all_operations(&self) -> u64 {
        self.faults.all_operations.load(Ordering::SeqCst)
    }

    /// How many times an appended file was synced so far.
    #[must_use]
    pub(crate) fn syncs(&self) -> u64 {
        self.faults.syncs.load(Ordering::SeqCst)
    }

    /// Whether the planned crash has happened.
    #[must_use]
    pub(crate) fn crashed(&self) -> bool {
        self.faults.crashed.load(Ordering::SeqCst)
    }
}

impl Faults {
    /// Counts one operation, and fails if it may not happen.
    fn step(&self) -> io::Result<()> {
        self.reading()?;
        let number = self.operations.fetch_add(1, Ordering::SeqCst);
        match self.plan {
            Fault::CrashAt(n) if number == n => {
                self.crashed.store(true, Ordering::SeqCst);
                Err(crash())
            }
            Fault::FailAt(n, kind) if number == n => Err(kind.into()),
            _ => Ok(()),
        }
    }

    /// Counts an operation that changes nothing.
    fn reading(&self) -> io::Result<()> {
        if self.crashed.load(Ordering::SeqCst) {
            return Err(crash());
        }
        let number = self.all_operations.fetch_add(1, Ordering::SeqCst);
        match self.plan {
            Fault::ErrorAt(n, error) if number == n => Err(io::Error::from_raw_os_error(error)),
            _ => Ok(()),
        }
    }
}

fn crash() -> io::Error {
    io::Error::other("the planned crash")
}

/// Methods that fail as planned, `step` those that change something and `reading` the others, and otherwise do what the real ones do.
macro_rules! passing_on {
    ($($counted:ident: $method:ident($($name:ident: $type:ty),*) -> $result:ty;)*) => {
        $(fn $method(&self, $($name: $type),*) -> io::Result<$result> {
            self.faults.$counted()?;
            self.inner.$method($($name),*)
        })*
    };
}

impl Disk for FaultyDisk {
    passing_on! {
        reading: read(path: &Path, limit: u64) -> Vec<u8>;
        reading: read_at(path: &Path, offset: u64, length: usize) -> Vec<u8>;
        step: rename(from: &Path, to: &Path) -> ();
        step: link_or_copy(from: &Path, to: &Path) -> ();
        step: remove_file(path: &Path) -> ();
        step: sync_dir(path: &Path) -> ();
        step: create_dir_private(path: &Path) -> ();
        step: make_dir_private(path: &Path) -> ();
        step: make_private_dirs(path: &Path) -> ();
        step: make_dirs(path: &Path) -> PathBuf;
        reading: list_dir(path: &Path) -> Vec<OsString>;
        reading: metadata(path: &Path) -> Metadata;
        reading: metadata_followed(path: &Path) -> Metadata;
        reading: real_path(path: &Path) -> PathBuf;
    }

    fn create_new(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        match self.faults.step() {
            Ok(()) => self.inner.create_new(path, bytes),
            Err(error) => {
                // Half of the file remains; if even that fails, less does.
                let _ = self.inner.create_new(path, &bytes[..bytes.len() / 2]);
                Err(error)
            }
        }
    }

    fn open_append(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        self.faults.step()?;
        Ok(Box::new(FaultyAppendFile {
            inner: self.inner.open_append(path)?,
            faults: Arc::clone(&self.faults),
        }))
    }

    fn create_append(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        self.faults.step()?;
        Ok(Box::new(FaultyAppendFile {
            inner: self.inner.create_append(path)?,
            faults: Arc::clone(&self.faults),
        }))
    }

    fn open_folder(&self, path: &Path) -> io::Result<Box<dyn Folder>> {
        self.faults.reading()?;
        Ok(FaultyFolder::boxed(self.inner.open_folder(path)?, &self.faults))
    }

    fn lock_dir(&self, path: &Path) -> io::Result<DirLock> {
        self.faults.reading()?;
        if self.faults.plan == Fault::NoLocks {
            return Ok(DirLock::Unsupported);
        }
        self.inner.lock_dir(path)
    }
}

#[derive(Debug)]
struct FaultyAppendFile {
    inner: Box<dyn AppendFile>,
    faults: Arc<Faults>,
}

impl AppendFile for FaultyAppendFile {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.faults.step() {
            Ok(()) => self.inner.write_all(bytes),
            Err(error) => {
                // As in `create_new`: a torn write, if the disk takes it.
                let _ = self.inner.write_all(&bytes[..bytes.len() / 2]);
                Err(error)
            }
        }
    }

    fn syncer(&self) -> Arc<dyn SyncFile> {
        Arc::new(FaultySyncFile {
            inner: self.inner.syncer(),
            faults: Arc::clone(&self.faults),
        })
    }

    fn rewind(&mut self, length: u64) -> io::Result<()> {
        self.faults.reading()?;
        self.inner.rewind(length)
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.faults.step()?;
        self.inner.truncate(length)
    }

    fn length(&self) -> u64 {
        self.inner.length()
    }
}

#[derive(Debug)]
struct FaultySyncFile {
    inner: Arc<dyn SyncFile>,
    faults: Arc<Faults>,
}

impl SyncFile for FaultySyncFile {
    fn sync_data(&self) -> io::Result<()> {
        self.faults.step()?;
        self.faults.syncs.fetch_add(1, Ordering::SeqCst);
        self.inner.sync_data()
    }
}

#[derive(Debug)]
struct FaultyFolder {
    inner: Box<dyn Folder>,
    faults: Arc<Faults>,
}

impl FaultyFolder {
    fn boxed(inner: Box<dyn Folder>, faults: &Arc<Faults>) -> Box<dyn Folder> {
        Box::new(Self {
            inner,
            faults: Arc::clone(faults),
        })
    }
}

impl Folder for FaultyFolder {
    passing_on! {
        reading: names() -> Vec<OsString>;
        reading: read_link(name: &OsStr) -> PathBuf;
        step: create_folder(name: &OsStr) -> ();
        step: append_file(name: &OsStr, bytes: &[u8]) -> ();
        step: rename(from: &OsStr, to: &OsStr) -> ();
        step: sync() -> ();
        step: create_link(name: &OsStr, target: &Path) -> ();
        step: remove(name: &OsStr) -> ();
    }

    fn open(&self, name: &OsStr) -> io::Result<OpenedEntry> {
        self.faults.reading()?;
        Ok(match self.inner.open(name)? {
            OpenedEntry::Folder(inner) => OpenedEntry::Folder(Self::boxed(inner, &self.faults)),
            OpenedEntry::File(file) => OpenedEntry::File(OpenFile {
                content: Box::new(FaultyContent {
                    inner: file.content,
                    faults: Arc::clone(&self.faults),
                }),
                ..file
            }),
            other => other,
        })
    }

    fn create_file(&self, name: &OsStr, mode: u32, content: &mut dyn Read) -> io::Result<()> {
        if let Err(error) = self.faults.step() {
            // The name remains, the content does not; if even that fails, less remains.
            let _ = self.inner.create_file(name, mode, &mut io::empty());
            return Err(error);
        }
        self.inner.create_file(name, mode, content)
    }

    fn open_shared(&self, name: &OsStr) -> io::Result<Box<dyn SharedFile>> {
        self.faults.step()?;
        Ok(Box::new(FaultySharedFile {
            inner: self.inner.open_shared(name)?,
            faults: Arc::clone(&self.faults),
        }))
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.faults.reading()?;
        if self.faults.plan == Fault::NoLocks {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.inner.try_lock()
    }
}

struct FaultyContent {
    inner: Box<dyn Read + Send>,
    faults: Arc<Faults>,
}

impl Read for FaultyContent {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.faults.reading()?;
        self.inner.read(bytes)
    }
}

#[derive(Debug)]
struct FaultySharedFile {
    inner: Box<dyn SharedFile>,
    faults: Arc<Faults>,
}

impl SharedFile for FaultySharedFile {
    fn last_byte(&mut self) -> io::Result<Option<u8>> {
        self.faults.reading()?;
        self.inner.last_byte()
    }

    fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.faults.step() {
            Ok(()) => self.inner.add(bytes),
            Err(error) => {
                // As in `create_new`: a torn write, if the disk takes it.
                let _ = self.inner.add(&bytes[..bytes.len() / 2]);
                Err(error)
            }
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        self.faults.step()?;
        self.faults.syncs.fetch_add(1, Ordering::SeqCst);
        self.inner.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use hankweave_runtime::world::disk::RealDisk;

    use super::*;

    #[test]
    fn a_failed_append_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let disk = FaultyDisk::new(Arc::new(RealDisk), Fault::FailAt(2, io::ErrorKind::StorageFull));
        let mut file = disk.open_append(&path).unwrap();
        file.append(b"one\n").unwrap();
        assert_eq!(
            file.append(b"two\n").unwrap_err().kind(),
            io::ErrorKind::StorageFull
        );
        file.append(b"three\n").unwrap();
        assert_eq!(RealDisk.read(&path, 100).unwrap(), b"one\nthree\n");
    }

    #[test]
    fn after_a_crash_the_torn_write_stays_and_nothing_works() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let disk = FaultyDisk::new(Arc::new(RealDisk), Fault::CrashAt(1));
        let mut file = disk.open_append(&path).unwrap();
        assert!(file.append(b"12345678").is_err());
        assert!(disk.crashed() && disk.read(&path, 100).is_err() && disk.remove_file(&path).is_err());
        assert_eq!(RealDisk.read(&path, 100).unwrap(), b"1234");
    }
}
