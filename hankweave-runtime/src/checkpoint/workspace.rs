//! The workspace folder, reached without ever following a link out of it.
//!
//! Every path is resolved name by name from one descriptor, and a link in the place of a folder is an error
//! ("reliability and security", rules G4 and G7).

use std::fs::File;
use std::io;
use std::io::Read as _;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::TreePath;
use super::tree::FileMode;

/// An open workspace.
#[derive(Debug)]
pub(super) struct Workspace {
    root: OwnedFd,
    path: PathBuf,
}

/// What tells whether a file changed since it was last read; the times are those of the file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileStat {
    pub(super) mode: FileMode,
    pub(super) size: u64,
    pub(super) inode: u64,
    pub(super) modified: FileTime,
    pub(super) changed: FileTime,
}

/// Seconds since 1970 and nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FileTime(pub(super) i64, pub(super) u32);

/// What reading a file gave.
#[derive(Debug)]
pub(super) enum Contents {
    /// The file as it was while it was read, and its state before.
    Read { bytes: Vec<u8>, stat: FileStat },
    /// The file is gone, or is no file any more.
    Gone,
    /// The operating system does not let us read it.
    Unreadable,
}

impl Workspace {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let root = rustix::fs::open(
            path,
            OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        Ok(Self {
            root,
            path: path.to_owned(),
        })
    }

    pub(super) fn root(&self) -> &OwnedFd {
        &self.root
    }

    /// Where `path` is, for messages.
    pub(super) fn locate(&self, path: &[u8]) -> PathBuf {
        self.path.join(std::ffi::OsStr::from_bytes(path))
    }

    /// Opens the folder `folder`; empty means the workspace itself.
    pub(super) fn folder(&self, folder: &[u8]) -> Result<OwnedFd, Errno> {
        let mut current = open_folder(&self.root, b".")?;
        for name in folder.split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
            current = open_folder(&current, name)?;
        }
        Ok(current)
    }

    /// Reads the file or link at `path`.
    pub(super) fn read(&self, path: &TreePath) -> io::Result<Contents> {
        match self.try_read(path) {
            Ok(contents) => Ok(contents),
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NXIO) => Ok(Contents::Gone),
                Some(Errno::ACCESS | Errno::PERM) => Ok(Contents::Unreadable),
                _ => Err(error),
            },
        }
    }

    fn try_read(&self, path: &TreePath) -> io::Result<Contents> {
        let (folder, name) = path.split();
        let folder = self.folder(folder)?;
        let stat = rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
            let bytes = rustix::fs::readlinkat(&folder, name, Vec::new())?.into_bytes();
            return Ok(FileStat::of(&stat).map_or(Contents::Gone, |stat| Contents::Read { bytes, stat }));
        }
        // Without NONBLOCK a FIFO that took the file's place would hang the checkpoint.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::openat(&folder, name, flags, Mode::empty())?);
        let Some(stat) = FileStat::of(&rustix::fs::fstat(&file)?) else {
            return Ok(Contents::Gone);
        };
        let mut bytes = Vec::with_capacity(usize::try_from(stat.size).unwrap_or(0));
        file.read_to_end(&mut bytes)?;
        Ok(Contents::Read { bytes, stat })
    }
}

/// Opens the folder `name` in `parent`, unless it is a link.
pub(super) fn open_folder(parent: impl AsFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(parent, name, flags, Mode::empty())
}

impl FileStat {
    /// The part of `stat` that matters, if it is of a regular file or a link.
    pub(super) fn of(stat: &Stat) -> Option<Self> {
        let mode = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile if stat.st_mode & 0o100 != 0 => FileMode::Executable,
            FileType::RegularFile => FileMode::Regular,
            FileType::Symlink => FileMode::Link,
            _ => return None,
        };
        Some(Self {
            mode,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            inode: stat.st_ino,
            modified: FileTime(stat.st_mtime, u32::try_from(stat.st_mtime_nsec).unwrap_or(0)),
            changed: FileTime(stat.st_ctime, u32::try_from(stat.st_ctime_nsec).unwrap_or(0)),
        })
    }
}
