//! The few durable operations that hankweave's own files need.
//!
//! Every byte of state, log, journal, lock and agent log goes through [`Disk`], so that a test can count, fail or lose each
//! step. The calls block; [`Blocking`](super::blocking::Blocking) decides which thread waits. Trees that belong to others
//! are walked through a [`Folder`]; checkpoints have a seam of their own, `CheckpointStore`.

mod beneath;
mod copy_rules;
#[cfg(test)]
#[path = "../../tests/support/faulty_disk.rs"]
mod faulty_disk;
mod folder;
mod place;
mod real;
mod real_folder;
mod repository;
mod spare;

use std::ffi::OsString;
use std::fmt::{self, Debug};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hankweave_core::time::Timestamp;

pub use beneath::{PathError, Visit};
pub(crate) use beneath::{descend, open_folder_in};
pub use copy_rules::CopyRules;
#[cfg(test)]
pub(crate) use faulty_disk::{Fault, FaultyDisk};
pub use folder::{Folder, OpenFile, OpenedEntry, SharedFile};
pub use real::RealDisk;
pub(crate) use real::{new_file, open_dir, open_regular, open_regular_in, permissions};
pub(crate) use real_folder::{kind_in, list_in};
pub use spare::{OpenedSpare, Spare, SparedDisk, Spares, records_folder};

/// Makes everything durable that was written to the file system of `file`. This is much cheaper than a sync of each of many small files.
///
/// # Errors
///
/// Returns the error of the operating system.
pub fn sync_file_system(file: impl AsFd) -> io::Result<()> {
    super::system::sync_file_system(file)
}

/// A file system, reduced to the operations whose effect after a crash is known.
///
/// No operation follows a symbolic link in the last part of a path, unless its documentation allows it. New files are readable by
/// their owner only.
pub trait Disk: Send + Sync + Debug {
    /// Reads a whole regular file.
    ///
    /// # Errors
    ///
    /// [`FileTooLarge`](io::ErrorKind::FileTooLarge) if it holds more than `limit` bytes, [`InvalidInput`](io::ErrorKind::InvalidInput)
    /// if it is not a regular file, else the error of the operating system.
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>>;

    /// Reads at most `length` bytes from `offset` on; fewer only at the end of the file.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if it is not a regular file, else the error of the operating system.
    fn read_at(&self, path: &Path, offset: u64, length: usize) -> io::Result<Vec<u8>>;

    /// Makes a file that must not exist yet, writes `bytes` and syncs it. The name is durable after
    /// [`sync_dir`](Self::sync_dir).
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system. The file may then exist with a part of the bytes.
    fn create_new(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;

    /// Opens a file for appending and makes it when it does not exist.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system.
    fn open_append(&self, path: &Path) -> io::Result<Box<dyn AppendFile>>;

    /// Makes a file that must not exist yet, for appending.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system, also if the name is taken.
    fn create_append(&self, path: &Path) -> io::Result<Box<dyn AppendFile>>;

    /// Gives `from` the name `to`, replacing an entry of that name.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives the content of `from`, which was synced, the second name `to`, which must not exist: as a hard link, or as a
    /// synced copy where the file system has no links.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system.
    fn link_or_copy(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system, also if there is no such file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a directory durable.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// Makes one directory for its owner only; its parent must exist.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system, also if the directory exists.
    fn create_dir_private(&self, path: &Path) -> io::Result<()>;

    /// Removes the permissions of all other users from a directory of this user; a link is not followed.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system.
    fn make_dir_private(&self, path: &Path) -> io::Result<()>;

    /// Makes a directory and its missing parents, all for their owner only. The directory may exist.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system.
    fn make_private_dirs(&self, path: &Path) -> io::Result<()>;

    /// Makes a directory of the user's and its missing parents, and returns its absolute path without links. The directory may exist.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system.
    fn make_dirs(&self, path: &Path) -> io::Result<PathBuf>;

    /// The names in a directory, sorted.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system.
    fn list_dir(&self, path: &Path) -> io::Result<Vec<OsString>>;

    /// Returns the metadata of `path`, without following a link.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system, also if there is no such entry.
    fn metadata(&self, path: &Path) -> io::Result<Metadata>;

    /// Returns the metadata of the target of `path`; links are followed.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system, also if there is no such entry.
    fn metadata_followed(&self, path: &Path) -> io::Result<Metadata>;

    /// The absolute path without links that leads where `path` leads now.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system, also if there is no such entry.
    fn real_path(&self, path: &Path) -> io::Result<PathBuf>;

    /// Opens a directory, to reach what is inside; links on the path to it are followed.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system, also if `path` is no directory.
    fn open_folder(&self, path: &Path) -> io::Result<Box<dyn Folder>>;

    /// Takes the kernel's exclusive lock on a directory, without waiting (L1).
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system, except for the outcomes of [`DirLock`].
    fn lock_dir(&self, path: &Path) -> io::Result<DirLock>;

    /// The spare records that this disk keeps, which are second copies of state directories; `None` when it keeps none.
    fn spares(&self) -> Option<&Spares> {
        None
    }
}

/// A file that only grows.
pub trait AppendFile: Send + Debug {
    /// Writes all of `bytes` to the end. After an error a part may have been written; [`append`](Self::append) cleans up.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system.
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// A second handle to the file, which can sync while this one continues writing.
    fn syncer(&self) -> Arc<dyn SyncFile>;

    /// Waits until everything written is durable. After an error it is unknown which bytes are: do not retry on this file.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system.
    fn sync_data(&mut self) -> io::Result<()> {
        self.syncer().sync_data()
    }

    /// Moves the end for the next write back to `length` bytes. The bytes after it stay on the disk as reserved room: a sync
    /// of bytes that overwrite them need not change the length of the file.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system.
    fn rewind(&mut self, length: u64) -> io::Result<()>;

    /// Cuts the file down to `length` bytes.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system.
    fn truncate(&mut self, length: u64) -> io::Result<()>;

    /// Offset of the next write, in bytes: the length of everything written successfully.
    fn length(&self) -> u64;

    /// Number of names that the file has; `None` if that is unknown.
    fn links(&self) -> Option<u64> {
        None
    }

    /// Whether `path` is a name of the file; true if that is unknown.
    fn is_at(&self, path: &Path) -> bool {
        let _ = path;
        true
    }

    /// Appends all of `bytes`. After a failure nothing is appended, if the disk allows that (D5).
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system for the write.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let good = self.length();
        self.write_all(bytes).inspect_err(|_| {
            // The first error is the one to report. A part that remains is found by its checksum or missing newline.
            let _ = self.truncate(good);
        })
    }
}

/// An open file whose content can be made durable.
pub trait SyncFile: Send + Sync + Debug {
    /// Waits until everything that was written before this call is durable; see [`AppendFile::sync_data`].
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system.
    fn sync_data(&self) -> io::Result<()>;
}

/// The answer to [`Disk::lock_dir`].
#[derive(Debug)]
pub enum DirLock {
    /// The lock is ours until the value is dropped.
    Acquired(Arc<dyn DirLockGuard>),
    /// Another process holds it.
    Held,
    /// The file system has no such locks.
    Unsupported,
}

/// A kernel lock on a directory, released when this value is dropped.
pub trait DirLockGuard: Send + Sync + Debug {
    /// Whether the path still leads to the locked directory. False after a program moved or replaced the directory: then
    /// writing at the path could reach another owner's files (D7).
    fn still_guards(&self) -> bool;

    /// Whether the locked directory was removed and not only moved; false if that is unknown.
    fn is_removed(&self) -> bool {
        false
    }
}

/// Failed operation on a file or folder.
#[derive(Debug, thiserror::Error)]
#[error("failed to {action} `{}`", path.display())]
pub struct IoError {
    /// Attempted action, such as "read".
    pub action: &'static str,
    /// The file or folder.
    pub path: PathBuf,
    /// Error of the system.
    #[source]
    pub source: io::Error,
}

impl IoError {
    /// A conversion for `map_err` that remembers the action and the path.
    pub fn at(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self { action, path, source }
    }
}

/// Metadata of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metadata {
    /// Kind.
    pub kind: FileKind,
    /// Length in bytes; for a directory without meaning.
    pub length: u64,
    /// Number of the user who owns it.
    pub owner: u32,
    /// Permission bits, such as `0o600`.
    pub mode: u32,
    /// Identity of the file, independent of its name: number of the device, and number of the file on that device.
    pub identity: (u64, u64),
    /// Time of the content's last change by the clock of the file system: seconds since 1970, and nanoseconds.
    pub modified: (i64, u32),
}

impl Metadata {
    /// Returns when its content last changed.
    #[must_use]
    pub fn modified_at(&self) -> Timestamp {
        timestamp(self.modified)
    }
}

/// Returns a time of a file system as one of records.
pub(crate) fn timestamp((seconds, nanoseconds): (i64, u32)) -> Timestamp {
    let millis = i64::from(nanoseconds / 1_000_000);
    Timestamp::from_millis(seconds.saturating_mul(1_000).saturating_add(millis))
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File => "a file",
            Self::Directory => "a folder",
            Self::Link => "a link",
            Self::Pipe => "a pipe",
            Self::Socket => "a socket",
            Self::Device => "a device",
            Self::Unknown => "something unknown",
        })
    }
}

/// The kinds of files that hankweave distinguishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A named pipe.
    Pipe,
    /// A socket.
    Socket,
    /// A character or block device.
    Device,
    /// Anything else that a system may have.
    Unknown,
}

/// Replaces a small file as a whole: after a crash the old or the new content is there, never a mixture (D1).
///
/// # Errors
///
/// Returns the error of the first failing step. The old content is then still in place, unless only the sync of its
/// directory failed.
pub fn replace(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = with_suffix(path, ".tmp");
    remove_if_present(disk, &temporary)?;
    replace_through(disk, path, &temporary, bytes)?;
    disk.sync_dir(parent(path))
}

/// Replaces a file through `temporary`, which must not exist; the new name is not synced. The files are ours, so each step
/// goes through [`Disk`], which may keep them twice (P11); files of others are replaced through a [`Folder`].
pub(crate) fn replace_through(
    disk: &dyn Disk,
    path: &Path,
    temporary: &Path,
    bytes: &[u8],
) -> io::Result<()> {
    let replaced = disk
        .create_new(temporary, bytes)
        .and_then(|()| disk.rename(temporary, path));
    replaced.inspect_err(|_| {
        // A full disk still lets us clean up (P9); the error to report is the first.
        let _ = disk.remove_file(temporary);
    })
}

/// Writes the bytes from position `from` to the end of an open file once more, over themselves.
///
/// Bytes that a process failed to sync can still be read. But the system takes them for written, so no later sync writes
/// them to the disk unless they are written again. After this call the next sync makes durable what a start has read. A
/// crash during the call leaves old bytes or new ones, which are equal.
///
/// # Errors
///
/// Returns the error of the operating system. The end of `file` may then be anywhere; its content is unchanged.
pub fn write_again(disk: &dyn Disk, path: &Path, file: &mut dyn AppendFile, from: u64) -> io::Result<()> {
    const CHUNK: u64 = 1 << 20;
    let end = file.length();
    file.rewind(from.min(end))?;
    while file.length() < end {
        let length = CHUNK.min(end - file.length()) as usize;
        let bytes = disk.read_at(path, file.length(), length)?;
        if bytes.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        file.write_all(&bytes)?;
    }
    Ok(())
}

/// Removes a file that may be absent.
///
/// # Errors
///
/// Returns the error of the operating system, unless there is no such file.
pub fn remove_if_present(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    absent_is(disk.remove_file(path), ())
}

/// Reads a file that may be absent.
///
/// # Errors
///
/// As [`Disk::read`], except that there is no such file.
pub fn read_if_present(disk: &dyn Disk, path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
    absent_is(disk.read(path, limit).map(Some), None)
}

/// An entry of another kind that had the name of a file or folder of ours and was moved aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuarantinedEntry {
    /// The name that it had.
    pub name: PathBuf,
    /// Kind.
    pub kind: FileKind,
    /// New path.
    pub kept: PathBuf,
}

/// Makes sure that `path` is free or has an entry of the kind `wanted`: moves any other entry aside, durably, and returns it.
///
/// # Errors
///
/// Returns the error of the operating system.
pub fn only(
    disk: &dyn Disk,
    path: &Path,
    wanted: FileKind,
    now: Timestamp,
) -> io::Result<Option<QuarantinedEntry>> {
    let kind = match disk.metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found?.kind,
    };
    if kind == wanted {
        return Ok(None);
    }
    let kept = free_name(disk, path, "damaged", now)?;
    disk.rename(path, &kept)?;
    disk.sync_dir(parent(path))?;
    let name = path.to_owned();
    Ok(Some(QuarantinedEntry { name, kind, kept }))
}

/// Returns `<path>.<word>-<time>`, with a number appended if that name is taken, so that no kept entry is ever overwritten.
///
/// # Errors
///
/// Returns the system's error if an entry cannot be examined.
pub fn free_name(disk: &dyn Disk, path: &Path, word: &str, now: Timestamp) -> io::Result<PathBuf> {
    let first = with_suffix(path, &format!(".{word}-{}", now.to_string().replace(':', "-")));
    let mut candidate = first.clone();
    for number in 2_u32.. {
        match disk.metadata(&candidate) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => break,
            found => drop(found?),
        }
        candidate = with_suffix(&first, &format!("-{number}"));
    }
    Ok(candidate)
}

/// `path` with `suffix` after its name: `state.json` and `.tmp` give `state.json.tmp`.
#[must_use]
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// The directory that holds `path`.
#[must_use]
pub fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Returns `absent` in place of an error that there is no such entry.
fn absent_is<T>(result: io::Result<T>, absent: T) -> io::Result<T> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(absent),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacing_survives_a_stale_temporary_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        RealDisk
            .create_new(&with_suffix(&path, ".tmp"), b"left behind")
            .unwrap();
        replace(&RealDisk, &path, b"one").unwrap();
        replace(&RealDisk, &path, b"two").unwrap();
        assert_eq!(RealDisk.read(&path, 10).unwrap(), b"two");
        assert_eq!(RealDisk.list_dir(folder.path()).unwrap(), ["token"]);
    }

    // covers: F3, P9
    #[test]
    fn a_replacement_that_fails_leaves_no_temporary_file() {
        for n in 0.. {
            let folder = tempfile::tempdir().unwrap();
            let fault = Fault::FailAt(n, io::ErrorKind::StorageFull);
            let faulty = FaultyDisk::new(Arc::new(RealDisk), fault);
            let result = replace(&faulty, &folder.path().join("token"), b"new");
            let names = RealDisk.list_dir(folder.path()).unwrap();
            assert!(
                names.iter().all(|name| name == "token"),
                "failure at {n}: {names:?}"
            );
            if result.is_ok() {
                return;
            }
        }
    }

    // covers: F1, D1
    #[test]
    fn replacing_is_all_or_nothing_at_every_operation() {
        for n in 0.. {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("token");
            replace(&RealDisk, &path, b"old").unwrap();
            let faulty = FaultyDisk::new(Arc::new(RealDisk), Fault::CrashAt(n));
            let result = replace(&faulty, &path, b"new");
            let content = RealDisk.read(&path, 10).unwrap();
            assert!(content == b"old" || content == b"new", "crash at {n}");
            if result.is_ok() {
                assert_eq!(content, b"new");
                return;
            }
        }
    }
}
