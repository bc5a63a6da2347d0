//! The disk of the operating system.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{
    AtFlags, FileType, FlockOperation, Mode, OFlags, RawMode, linkat, mkdirat, openat, renameat, statat,
    unlinkat,
};
use rustix::io::{Errno, retry_on_intr};
use rustix::path::Arg;

use super::place::{ResolvedPath, make_dirs_of_ours, state_dir_of};
use super::real_folder::RealFolder;
use super::{AppendFile, DirLock, DirLockGuard, Disk, Folder, Metadata, SyncFile};
use crate::world::environment::umask_of_user;
use crate::world::system;

/// The real file system.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        let file = open_regular(path)?;
        let mut bytes = Vec::new();
        // One byte more than allowed reveals a file that is too large, even one that grows while it is read.
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
        let mut file = new_file(path, PRIVATE)?;
        file.write_all(bytes)?;
        file.sync_all()
    }

    fn open_append(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NONBLOCK;
        let mut file = File::from(ResolvedPath::of(path)?.open(flags, PRIVATE)?);
        let length = regular(&file)?;
        file.seek(SeekFrom::Start(length))?;
        Ok(RealAppendFile::boxed(file, length))
    }

    fn create_append(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        let file = new_file(path, PRIVATE)?;
        Ok(RealAppendFile::boxed(file, 0))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (ResolvedPath::of(from)?, ResolvedPath::of(to)?);
        Ok(renameat(from.folder(), from.name(), to.folder(), to.name())?)
    }

    fn link_or_copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        match link(from, to) {
            Err(error) if has_no_links(&error) => copy(from, to),
            other => other,
        }
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let place = ResolvedPath::of(path)?;
        Ok(unlinkat(place.folder(), place.name(), AtFlags::empty())?)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        open_dir(path)?.sync_all()
    }

    fn create_dir_private(&self, path: &Path) -> io::Result<()> {
        let place = ResolvedPath::of(path)?;
        Ok(mkdirat(place.folder(), place.name(), Mode::RWXU)?)
    }

    fn make_dir_private(&self, path: &Path) -> io::Result<()> {
        open_dir(path)?.set_permissions(fs::Permissions::from_mode(0o700))
    }

    fn make_private_dirs(&self, path: &Path) -> io::Result<()> {
        let private = |path: &Path| fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
        if let Some(state_dir) = state_dir_of(path) {
            private(state_dir)?;
        }
        match make_dirs_of_ours(path)? {
            true => Ok(()),
            false => private(path),
        }
    }

    fn make_dirs(&self, path: &Path) -> io::Result<PathBuf> {
        let made: Vec<&Path> = path.ancestors().take_while(|folder| !folder.exists()).collect();
        fs::create_dir_all(path)?;
        // These folders are the user's, not ours.
        if let Some(umask) = umask_of_user() {
            for folder in made.iter().filter(|folder| folder.file_name().is_some()) {
                open_dir(folder)?.set_permissions(fs::Permissions::from_mode(0o777 & !umask | 0o700))?;
            }
        }
        fs::canonicalize(path)
    }

    fn list_dir(&self, path: &Path) -> io::Result<Vec<OsString>> {
        open_folder(path)?.names()
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        let place = ResolvedPath::of(path)?;
        let seen = statat(place.folder(), place.name(), AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(Metadata {
            kind: FileType::from_raw_mode(seen.st_mode).into(),
            length: u64::try_from(seen.st_size).unwrap_or(0),
            owner: seen.st_uid,
            mode: permissions(seen.st_mode),
            identity: (device(seen.st_dev), seen.st_ino),
            modified: (seen.st_mtime, u32::try_from(seen.st_mtime_nsec).unwrap_or(0)),
        })
    }

    fn metadata_followed(&self, path: &Path) -> io::Result<Metadata> {
        fs::metadata(path).map(|metadata| described(&metadata))
    }

    fn real_path(&self, path: &Path) -> io::Result<PathBuf> {
        fs::canonicalize(path)
    }

    fn open_folder(&self, path: &Path) -> io::Result<Box<dyn Folder>> {
        Ok(Box::new(open_folder(path)?))
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

/// Number of unsent bytes from which the system is asked to begin writing them to the disk. Otherwise it begins after
/// seconds, and any sync before that, even of another file, must wait for all of them.
const SENT_AT_ONCE: u64 = 256 << 10;

#[derive(Debug)]
struct RealAppendFile {
    file: Arc<RealSyncFile>,
    /// Offset of the next write.
    length: u64,
    /// Offset up to which the system has begun to write the file to the disk.
    sent: u64,
}

impl RealAppendFile {
    fn boxed(file: File, length: u64) -> Box<dyn AppendFile> {
        let file = Arc::new(RealSyncFile(file));
        let sent = length;
        Box::new(Self { file, length, sent })
    }

    /// Lets the system begin to write the unsent bytes to the disk, if there are enough.
    fn send_on(&mut self) {
        let unsent = self.length.saturating_sub(self.sent);
        if unsent >= SENT_AT_ONCE {
            system::send_on(&self.file.0, self.sent, unsent);
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

    fn links(&self) -> Option<u64> {
        self.file.0.metadata().ok().map(|metadata| metadata.nlink())
    }

    fn is_at(&self, path: &Path) -> bool {
        match (self.file.0.metadata(), RealDisk.metadata(path)) {
            (Ok(open), Ok(named)) => (open.dev(), open.ino()) == named.identity,
            _ => false,
        }
    }
}

#[derive(Debug)]
struct RealSyncFile(File);

impl SyncFile for RealSyncFile {
    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}

/// Lock on a directory. A program that we start does not inherit the descriptor, but its forked process has a copy until the
/// program runs. So the lock is released explicitly: closing our descriptor would not be enough.
#[derive(Debug)]
struct LockedDirectory {
    path: PathBuf,
    directory: File,
}

impl Drop for LockedDirectory {
    fn drop(&mut self) {
        let _ = rustix::fs::flock(&self.directory, FlockOperation::Unlock);
    }
}

impl DirLockGuard for LockedDirectory {
    fn still_guards(&self) -> bool {
        match (self.directory.metadata(), fs::symlink_metadata(&self.path)) {
            (Ok(locked), Ok(named)) => (locked.dev(), locked.ino()) == (named.dev(), named.ino()),
            _ => false,
        }
    }

    fn is_removed(&self) -> bool {
        self.directory
            .metadata()
            .is_ok_and(|metadata| metadata.nlink() == 0)
    }
}

fn described(metadata: &fs::Metadata) -> Metadata {
    Metadata {
        kind: FileType::from_raw_mode(metadata.mode() as RawMode).into(),
        length: metadata.len(),
        owner: metadata.uid(),
        mode: permissions(metadata.mode()),
        identity: (metadata.dev(), metadata.ino()),
        modified: (
            metadata.mtime(),
            u32::try_from(metadata.mtime_nsec()).unwrap_or(0),
        ),
    }
}

/// Returns the permission bits of a mode, which is not equally wide on all systems.
pub(crate) fn permissions(mode: impl Into<u32>) -> u32 {
    mode.into() & 0o7777
}

/// Returns the number of a device as the standard library does. On some systems the number has a sign.
fn device(number: impl TryInto<i64>) -> u64 {
    number.try_into().map_or(0, i64::cast_unsigned)
}

/// Permission bits of a file for its owner alone.
const PRIVATE: u32 = 0o600;

/// Makes a file that must not exist yet.
pub(crate) fn new_file(path: &Path, mode: u32) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
    Ok(ResolvedPath::of(path)?.open(flags, mode)?.into())
}

/// Opens a regular file for reading, without waiting for the other end of a FIFO.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    if_regular(ResolvedPath::of(path)?.open(OFlags::RDONLY | OFlags::NONBLOCK, 0))
}

/// Opens the regular file `name` in an open folder, without waiting for the other end of a FIFO.
pub(crate) fn open_regular_in(folder: impl AsFd, name: impl Arg + Copy) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    if_regular(retry_on_intr(|| openat(&folder, name, flags, Mode::empty())))
}

fn if_regular(opened: rustix::io::Result<OwnedFd>) -> io::Result<File> {
    let file = File::from(opened.map_err(|error| match error {
        // Errors of opening a link, or a socket.
        Errno::LOOP | Errno::NXIO | Errno::OPNOTSUPP => not_regular(),
        error => error.into(),
    })?);
    regular(&file)?;
    Ok(file)
}

/// Opens a directory. Links on the path are followed, except inside a state directory.
fn open_folder(path: &Path) -> io::Result<RealFolder> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let place = ResolvedPath::of(path)?;
    let opened = match place.is_ours() {
        true => place.open(flags, 0),
        false => retry_on_intr(|| rustix::fs::open(path, flags, Mode::empty())),
    };
    Ok(RealFolder::new(opened?))
}

fn link(from: &Path, to: &Path) -> io::Result<()> {
    let (from, to) = (ResolvedPath::of(from)?, ResolvedPath::of(to)?);
    Ok(linkat(
        from.folder(),
        from.name(),
        to.folder(),
        to.name(),
        AtFlags::empty(),
    )?)
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

/// Opens a directory; fails for a link to one.
pub(crate) fn open_dir(path: &Path) -> io::Result<File> {
    let opened = ResolvedPath::of(path)?.open(OFlags::RDONLY | OFlags::DIRECTORY, 0);
    Ok(opened?.into())
}

/// Whether `error` shows that the file system cannot make this hard link.
pub(super) fn has_no_links(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::PERM | Errno::NOTSUP | Errno::NOSYS | Errno::MLINK | Errno::XDEV)
    )
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut target = new_file(to, PRIVATE)?;
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

    /// In a folder of the user's a link counts, in one of ours it leads nowhere.
    // covers: X5, F14
    #[test]
    fn nothing_in_a_state_directory_leads_elsewhere() {
        let (folder, _) = folder();
        let elsewhere = folder.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        fs::write(elsewhere.join("file"), "secret").unwrap();
        for place in [".hankweave", "of-the-user"] {
            let place = folder.path().join(place);
            fs::create_dir(&place).unwrap();
            fs::write(place.join("own"), "x").unwrap();
            symlink(&elsewhere, place.join("runs")).unwrap();
            let (linked, new) = (place.join("runs/file"), place.join("runs/new"));
            let done = [
                RealDisk.read(&linked, 9).is_ok(),
                RealDisk.metadata(&linked).is_ok(),
                RealDisk.list_dir(&place.join("runs")).is_ok(),
                RealDisk.create_new(&new, b"").is_ok(),
                RealDisk.remove_file(&new).is_ok(),
                RealDisk.create_append(&new).is_ok(),
                RealDisk.open_append(&new).is_ok(),
                RealDisk.rename(&new, &place.join("runs/other")).is_ok(),
                RealDisk.link_or_copy(&place.join("own"), &new).is_ok(),
                RealDisk.create_dir_private(&place.join("runs/a")).is_ok(),
                RealDisk.make_private_dirs(&place.join("runs/b/c")).is_ok(),
                RealDisk.make_private_dirs(&place.join("runs")).is_ok(),
            ];
            assert_eq!(done, [place.ends_with("of-the-user"); 12], "{}", place.display());
            if place.ends_with(".hankweave") {
                assert_eq!(RealDisk.list_dir(&elsewhere).unwrap(), ["file"]);
            }
        }
        let deep = folder.path().join(".hankweave/a/b/c");
        RealDisk.make_private_dirs(&deep).unwrap();
        RealDisk.make_private_dirs(&deep).unwrap();
        RealDisk.create_new(&deep.join("file"), b"x").unwrap();
        RealDisk.rename(&deep.join("file"), &deep.join("other")).unwrap();
        assert_eq!(RealDisk.list_dir(&deep).unwrap(), ["other"]);
        assert!(RealDisk.read(&deep.join("../c/other"), 9).is_err());
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
