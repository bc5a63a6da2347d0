//! The workspace folder, reached without ever following a link out of it.
//!
//! Every path is resolved name by name from one descriptor, and a link in the place of a folder is an error (G4, G7).

use std::fs::File;
use std::io;
use std::io::{Read as _, Seek as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use hankweave_core::time::Timestamp;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::TreePath;
use super::tree::FileMode;
use crate::world::disk::{descend, open_folder_in, timestamp};

/// Maximum number of attempts to read a file that changes meanwhile.
const READINGS: usize = 4;

/// An open workspace.
#[derive(Debug)]
pub(super) struct Workspace {
    root: OwnedFd,
    path: PathBuf,
}

/// Stat data that show whether a file changed since it was last read; the times are those of the file system.
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

impl FileTime {
    pub(super) fn timestamp(self) -> Timestamp {
        timestamp((self.0, self.1))
    }
}

/// Result of reading a file.
#[derive(Debug)]
pub(super) enum Contents<T> {
    /// Value made of the file, which was unchanged while it was read, and its stat data.
    Read { read: T, stat: FileStat },
    /// The entry no longer exists, or is no longer a file.
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

    /// Returns the location of `path`, for messages.
    pub(super) fn locate(&self, path: &[u8]) -> PathBuf {
        self.path.join(std::ffi::OsStr::from_bytes(path))
    }

    /// Whether there is anything directly in the workspace with this name.
    pub(super) fn has_entry(&self, name: &[u8]) -> Result<bool, Errno> {
        match rustix::fs::statat(&self.root, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Opens the folder `folder`; empty means the workspace itself.
    pub(super) fn folder(&self, folder: &[u8]) -> Result<OwnedFd, Errno> {
        self.folder_or(folder, |_, _, error| Err(error))
    }

    /// Opens the folder. Where a name on the path does not lead to a folder, `instead` gets the parent, the name and the
    /// error, and returns the folder to continue with.
    pub(super) fn folder_or(
        &self,
        folder: &[u8],
        instead: impl Fn(&OwnedFd, &[u8], Errno) -> Result<OwnedFd, Errno>,
    ) -> Result<OwnedFd, Errno> {
        let names = folder.split(|&byte| byte == b'/').filter(|name| !name.is_empty());
        descend(open_folder_in(&self.root, ".")?, names, instead)
    }

    /// Reads the file or link at `path`, however large. A file that changes while it is read is read again, a few times; then
    /// that is an error, because its content is unknown (G5).
    pub(super) fn read(&self, path: &TreePath) -> io::Result<Contents<Vec<u8>>> {
        self.read_with(path, &mut |source| match source {
            FileContents::Link(target) => Ok(Some(target.to_vec())),
            FileContents::File(file, length) => whole(file, length),
        })
    }

    /// Like [`read`](Self::read), with a function that makes a value of the content, or returns `None` when the file has changed.
    pub(super) fn read_with<T, E: From<io::Error>>(
        &self,
        path: &TreePath,
        read: &mut dyn FnMut(FileContents<'_>) -> Result<Option<T>, E>,
    ) -> Result<Contents<T>, E> {
        match self.open_entry(path) {
            Ok(WorkspaceEntry::File(file)) => {
                let look = || -> io::Result<_> { Ok(FileStat::of(&rustix::fs::fstat(&file)?)) };
                let steady = read_steady(&file, look, &mut |file, length| {
                    read(FileContents::File(file, length))
                })?;
                steady.ok_or_else(|| io::Error::other("it changed each time it was read").into())
            }
            Ok(WorkspaceEntry::Link(target, stat)) => Ok(match read(FileContents::Link(&target))? {
                Some(read) => Contents::Read { read, stat },
                None => Contents::Gone,
            }),
            Ok(WorkspaceEntry::Other) => Ok(Contents::Gone),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NXIO) => Ok(Contents::Gone),
            Err(Errno::ACCESS | Errno::PERM) => Ok(Contents::Unreadable),
            Err(error) => Err(io::Error::from(error).into()),
        }
    }

    fn open_entry(&self, path: &TreePath) -> Result<WorkspaceEntry, Errno> {
        let (folder, name) = path.split();
        let folder = self.folder(folder)?;
        let stat = rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
            let target = rustix::fs::readlinkat(&folder, name, Vec::new())?.into_bytes();
            return Ok(
                FileStat::of(&stat).map_or(WorkspaceEntry::Other, |stat| WorkspaceEntry::Link(target, stat))
            );
        }
        // Without NONBLOCK a FIFO that took the file's place would hang the checkpoint.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&folder, name, flags, Mode::empty())?;
        Ok(WorkspaceEntry::File(file.into()))
    }
}

/// An entry of the workspace that was opened.
enum WorkspaceEntry {
    File(File),
    Link(Vec<u8>, FileStat),
    Other,
}

/// Content of a file: the target of a link, or an open file with its length in bytes.
#[derive(Debug)]
pub(super) enum FileContents<'a> {
    Link(&'a [u8]),
    File(&'a File, u64),
}

/// The first `length` bytes of a file, in memory; `None` when there are fewer.
pub(super) fn whole<E: From<io::Error>>(mut file: &File, length: u64) -> Result<Option<Vec<u8>>, E> {
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    file.rewind()?;
    file.take(length).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 == length).then_some(bytes))
}

/// Reads this number of bytes of a file; `None` if the file has fewer.
type ReadFile<'a, T, E> = dyn FnMut(&File, u64) -> Result<Option<T>, E> + 'a;

/// Reads `file` until `look` returns equal stats before and after; `None` if that never happens. Reads no more bytes than
/// the stats before name, so reading a growing file ends too.
fn read_steady<T, E: From<io::Error>>(
    file: &File,
    mut look: impl FnMut() -> io::Result<Option<FileStat>>,
    read: &mut ReadFile<'_, T, E>,
) -> Result<Option<Contents<T>>, E> {
    let mut before = look()?;
    for _ in 0..READINGS {
        let Some(stat) = before else {
            return Ok(Some(Contents::Gone));
        };
        let read = read(file, stat.size)?;
        before = look()?;
        if let Some(read) = read
            && before == Some(stat)
        {
            return Ok(Some(Contents::Read { read, stat }));
        }
    }
    Ok(None)
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

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// Reads a file that grows by one letter before each of the first `changes` stats, except the very first.
    fn read_while_it_grows(changes: usize) -> Option<Vec<u8>> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"a").unwrap();
        let mut looks = 0;
        let look = || -> io::Result<_> {
            if (1..=changes).contains(&looks) {
                (&file).seek(io::SeekFrom::End(0))?;
                (&file).write_all(b"b")?;
            }
            looks += 1;
            Ok(FileStat::of(&rustix::fs::fstat(&file)?))
        };
        let contents = read_steady(&file, look, &mut whole::<io::Error>);
        match contents.unwrap() {
            Some(Contents::Read { read, stat }) => {
                assert_eq!(stat.size, read.len() as u64);
                Some(read)
            }
            None => None,
            Some(other) => panic!("{other:?}"),
        }
    }

    // covers: G4, G5
    #[test]
    fn a_file_that_changes_while_it_is_read_is_read_again() {
        assert_eq!(read_while_it_grows(0).unwrap(), b"a");
        assert_eq!(read_while_it_grows(1).unwrap(), b"ab");
        assert_eq!(read_while_it_grows(READINGS - 1).unwrap(), b"abbb");
    }

    // covers: G4, G5, F15
    #[test]
    fn a_file_that_never_rests_is_not_stored_half() {
        assert_eq!(read_while_it_grows(READINGS), None);
    }
}
