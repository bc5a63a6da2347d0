//! The disk of the operating system.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::num::NonZeroU64;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Advice, FileType, FlockOperation, Mode, OFlags, fadvise};
use rustix::io::Errno;

use super::real_folder::RealFolder;
use super::{AppendFile, DirLock, Disk, Folder, HeldLock, Metadata, SyncFile};

/// The real file system.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        let file = open_regular(path)?;
        let mut bytes = Vec::new();
        // One byte more than allowed tells a file that is too large, even one that grows while it is read.
        file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > limit {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(bytes)
    }

    fn read_at(&self, path: &Path, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut file = open_regular(path)?;
        let left = file.metadata()?.len().saturating_sub(offset);
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(length);
        file.seek(SeekFrom::Start(offset))?;
        let mut bytes = Vec::with_capacity(length);
        file.take(length as u64).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn create_new(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = new_file(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    }

    fn open_append(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        let mut file = private()
            .write(true)
            .create(true)
            .truncate(false)
            .custom_flags(flags(OFlags::NOFOLLOW | OFlags::NONBLOCK))
            .open(path)?;
        let length = regular(&file)?;
        file.seek(SeekFrom::Start(length))?;
        Ok(RealAppendFile::boxed(file, length))
    }

    fn create_append(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        let file = new_file(path)?;
        Ok(RealAppendFile::boxed(file, 0))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn link_or_copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        match fs::hard_link(from, to) {
            Err(error) if has_no_links(&error) => copy(from, to),
            other => other,
        }
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        open_dir(path)?.sync_all()
    }

    fn create_dir_private(&self, path: &Path) -> io::Result<()> {
        fs::DirBuilder::new().mode(0o700).create(path)
    }

    fn make_dir_private(&self, path: &Path) -> io::Result<()> {
        open_dir(path)?.set_permissions(fs::Permissions::from_mode(0o700))
    }

    fn make_private_dirs(&self, path: &Path) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
    }

    fn make_dirs(&self, path: &Path) -> io::Result<PathBuf> {
        fs::create_dir_all(path)?;
        fs::canonicalize(path)
    }

    fn list_dir(&self, path: &Path) -> io::Result<Vec<OsString>> {
        let mut names = fs::read_dir(path)?
            .map(|entry| entry.map(|entry| entry.file_name()))
            .collect::<io::Result<Vec<_>>>()?;
        names.sort_unstable();
        Ok(names)
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        fs::symlink_metadata(path).map(|metadata| described(&metadata))
    }

    fn metadata_followed(&self, path: &Path) -> io::Result<Metadata> {
        fs::metadata(path).map(|metadata| described(&metadata))
    }

    fn real_path(&self, path: &Path) -> io::Result<PathBuf> {
        fs::canonicalize(path)
    }

    fn open_folder(&self, path: &Path) -> io::Result<Box<dyn Folder>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(Box::new(RealFolder::new(opened)))
    }

    fn lock_dir(&self, path: &Path) -> io::Result<DirLock> {
        let directory = open_dir(path)?;
        match rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(DirLock::Acquired(Arc::new(LockedDirectory {
                path: fs::canonicalize(path)?,
                directory,
            }))),
            Err(Errno::WOULDBLOCK) => Ok(DirLock::Held),
            Err(Errno::NOTSUP | Errno::NOSYS | Errno::NOLCK | Errno::INVAL) => Ok(DirLock::Unsupported),
            Err(error) => Err(error.into()),
        }
    }
}

/// How much is written before the system is asked to begin bringing it to the disk, in bytes. It would do so after seconds; until then a
/// sync, even one of something else, finds everything still to be done.
const SENT_AT_ONCE: u64 = 256 << 10;

#[derive(Debug)]
struct RealAppendFile {
    file: Arc<RealSyncFile>,
    length: u64,
    /// What is in front of this is on its way to the disk, or there already.
    sent: u64,
}

impl RealAppendFile {
    fn boxed(file: File, length: u64) -> Box<dyn AppendFile> {
        let file = Arc::new(RealSyncFile(file));
        let sent = length;
        Box::new(Self { file, length, sent })
    }

    fn send_on(&mut self) {
        let unsent = self.length.saturating_sub(self.sent);
        if unsent >= SENT_AT_ONCE {
            // Advice: a system that does not take it does the same later.
            let _ = fadvise(&self.file.0, self.sent, NonZeroU64::new(unsent), Advice::DontNeed);
            self.sent = self.length;
        }
    }
}

impl AppendFile for RealAppendFile {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        (&self.file.0).write_all(bytes)?;
        self.length += bytes.len() as u64;
        self.send_on();
        Ok(())
    }

    fn syncer(&self) -> Arc<dyn SyncFile> {
        self.file.clone()
    }

    fn rewind(&mut self, length: u64) -> io::Result<()> {
        (&self.file.0).seek(SeekFrom::Start(length))?;
        self.length = length;
        self.sent = self.sent.min(length);
        Ok(())
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.file.0.set_len(length)?;
        self.rewind(length)
    }

    fn length(&self) -> u64 {
        self.length
    }
}

#[derive(Debug)]
struct RealSyncFile(File);

impl SyncFile for RealSyncFile {
    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}

/// The lock lives as long as the descriptor, which no child inherits.
#[derive(Debug)]
struct LockedDirectory {
    path: PathBuf,
    directory: File,
}

impl HeldLock for LockedDirectory {
    fn still_guards(&self) -> bool {
        match (self.directory.metadata(), fs::symlink_metadata(&self.path)) {
            (Ok(locked), Ok(named)) => (locked.dev(), locked.ino()) == (named.dev(), named.ino()),
            _ => false,
        }
    }
}

fn described(metadata: &fs::Metadata) -> Metadata {
    Metadata {
        kind: FileType::from_raw_mode(metadata.mode()).into(),
        length: metadata.len(),
        owner: metadata.uid(),
        mode: metadata.mode() & 0o7777,
        modified: metadata.mtime(),
    }
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

fn new_file(path: &Path) -> io::Result<File> {
    private()
        .write(true)
        .create_new(true)
        .custom_flags(flags(OFlags::NOFOLLOW))
        .open(path)
}

/// Opens for reading without waiting for the other end of a FIFO.
fn open_regular(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags(OFlags::NOFOLLOW | OFlags::NONBLOCK))
        .open(path)
        .map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::LOOP) => not_regular(),
            _ => error,
        })?;
    regular(&file)?;
    Ok(file)
}

/// The length of `file` if it is a regular file.
fn regular(file: &File) -> io::Result<u64> {
    let metadata = file.metadata()?;
    if metadata.is_file() {
        Ok(metadata.len())
    } else {
        Err(not_regular())
    }
}

fn not_regular() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")
}

fn open_dir(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(flags(OFlags::DIRECTORY | OFlags::NOFOLLOW))
        .open(path)
}

fn flags(flags: OFlags) -> i32 {
    flags.bits().cast_signed()
}

fn has_no_links(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::PERM | Errno::NOTSUP | Errno::NOSYS | Errno::MLINK | Errno::XDEV)
    )
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut target = new_file(to)?;
    io::copy(&mut open_regular(from)?, &mut target)?;
    target.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::super::FileKind;
    use super::*;

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        (folder, path)
    }

    #[test]
    fn a_new_file_belongs_to_its_owner_alone() {
        let (_folder, path) = folder();
        RealDisk.create_new(&path, b"x").unwrap();
        let metadata = RealDisk.metadata(&path).unwrap();
        assert_eq!(
            (metadata.kind, metadata.mode, metadata.length),
            (FileKind::File, 0o600, 1)
        );
        assert_eq!(
            RealDisk.create_new(&path, b"y").unwrap_err().kind(),
            io::ErrorKind::AlreadyExists
        );
    }

    #[test]
    fn no_operation_follows_a_link() {
        let (folder, path) = folder();
        RealDisk.create_new(&path, b"secret").unwrap();
        let link = folder.path().join("link");
        symlink(&path, &link).unwrap();
        assert!(RealDisk.read(&link, 100).is_err());
        assert!(RealDisk.create_new(&link, b"x").is_err());
        assert!(RealDisk.open_append(&link).is_err());
        assert_eq!(RealDisk.metadata(&link).unwrap().kind, FileKind::Link);
        assert_eq!(RealDisk.read(&path, 100).unwrap(), b"secret");
    }

    #[test]
    fn a_file_over_the_limit_is_refused() {
        let (_folder, path) = folder();
        RealDisk.create_new(&path, b"12345").unwrap();
        assert_eq!(RealDisk.read(&path, 5).unwrap(), b"12345");
        assert_eq!(
            RealDisk.read(&path, 4).unwrap_err().kind(),
            io::ErrorKind::FileTooLarge
        );
    }

    #[test]
    fn a_part_of_a_file_can_be_read() {
        let (_folder, path) = folder();
        RealDisk.create_new(&path, b"0123456789").unwrap();
        assert_eq!(RealDisk.read_at(&path, 2, 3).unwrap(), b"234");
        assert_eq!(RealDisk.read_at(&path, 8, 30).unwrap(), b"89");
        assert_eq!(RealDisk.read_at(&path, 80, 3).unwrap(), b"");
    }

    #[test]
    fn appending_continues_where_the_file_ends() {
        let (_folder, path) = folder();
        RealDisk.open_append(&path).unwrap().append(b"one\n").unwrap();
        let mut file = RealDisk.open_append(&path).unwrap();
        file.append(b"two\n").unwrap();
        assert_eq!(file.length(), 8);
        file.truncate(4).unwrap();
        file.append(b"three\n").unwrap();
        assert_eq!(RealDisk.read(&path, 100).unwrap(), b"one\nthree\n");
    }

    #[test]
    fn what_is_behind_a_rewound_end_stays_until_it_is_written_over() {
        let (_folder, path) = folder();
        let mut file = RealDisk.create_append(&path).unwrap();
        file.append(b"one\n....").unwrap();
        file.rewind(4).unwrap();
        assert_eq!(file.length(), 4);
        file.append(b"two").unwrap();
        assert_eq!(RealDisk.read(&path, 100).unwrap(), b"one\ntwo.");
        file.truncate(4).unwrap();
        file.append(b"2\n").unwrap();
        assert_eq!(RealDisk.read(&path, 100).unwrap(), b"one\n2\n");
    }

    // covers: L1
    #[test]
    fn a_directory_is_locked_once_until_the_lock_is_dropped() {
        let (folder, _) = folder();
        let DirLock::Acquired(lock) = RealDisk.lock_dir(folder.path()).unwrap() else {
            panic!("the first lock must succeed")
        };
        assert!(matches!(RealDisk.lock_dir(folder.path()).unwrap(), DirLock::Held));
        drop(lock);
        assert!(matches!(
            RealDisk.lock_dir(folder.path()).unwrap(),
            DirLock::Acquired(_)
        ));
    }

    // covers: D7
    #[test]
    fn a_lock_notices_that_its_directory_was_replaced() {
        let (folder, _) = folder();
        let locked = folder.path().join("state");
        RealDisk.create_dir_private(&locked).unwrap();
        let DirLock::Acquired(lock) = RealDisk.lock_dir(&locked).unwrap() else {
            panic!("nobody else holds it")
        };
        assert!(lock.still_guards());
        RealDisk.rename(&locked, &folder.path().join("away")).unwrap();
        assert!(!lock.still_guards());
        RealDisk.create_dir_private(&locked).unwrap();
        assert!(!lock.still_guards());
    }
}
