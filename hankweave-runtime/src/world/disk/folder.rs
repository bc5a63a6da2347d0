//! The seam to trees that belong to others: the hank's folder and the agent's workspace.
//!
//! A [`Folder`] is an open directory. Each step names one entry in the directory and follows no link, so no process can swap
//! a folder for a link between check and use (X2, X3). Methods for whole paths are in [`beneath`](super::beneath).

use std::ffi::{OsStr, OsString};
use std::fmt::Debug;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::FileKind;

/// An open directory. Every `name` is one entry of it, without a slash, and neither `.` nor `..`.
pub trait Folder: Send + Sync + Debug {
    /// Opens an entry, without following a link and without waiting for the other end of a pipe.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system, also if there is no such entry.
    fn open(&self, name: &OsStr) -> io::Result<OpenedEntry>;

    /// The names of all entries, sorted.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system.
    fn names(&self) -> io::Result<Vec<OsString>>;

    /// Returns the target of a link, as written.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system, also if the entry is no link.
    fn read_link(&self, name: &OsStr) -> io::Result<PathBuf>;

    /// Makes a directory that must not exist yet, with the user's usual permissions.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system.
    fn create_folder(&self, name: &OsStr) -> io::Result<()>;

    /// Makes a file that must not exist yet, with all of `content` and the permission bits `mode`. It is not synced.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system or of `content`. The file may then exist with a part of the content.
    fn create_file(&self, name: &OsStr, mode: u32, content: &mut dyn Read) -> io::Result<()>;

    /// Adds `bytes` to the end of a regular file and syncs it. A missing file is made; a link is not followed.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system, also if another kind of entry has that name. A part may then have been written.
    fn append_file(&self, name: &OsStr, bytes: &[u8]) -> io::Result<()>;

    /// Opens a regular file to which several writers may add. A missing file is made, for its owner alone; a link is not followed.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system, also if another kind of entry has that name.
    fn open_shared(&self, name: &OsStr) -> io::Result<Box<dyn SharedFile>>;

    /// Renames the entry `from` to `to` in this folder, replacing a file with that name.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system.
    fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()>;

    /// Makes the names in this folder durable.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system.
    fn sync(&self) -> io::Result<()>;

    /// Takes the kernel's exclusive lock on this folder, without waiting; it is held until this value is dropped. Returns
    /// `false` if the lock is taken.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system, also if the file system has no such locks.
    fn try_lock(&self) -> io::Result<bool>;

    /// Makes a link that points to `target`.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system, also if the name is taken.
    fn create_link(&self, name: &OsStr, target: &Path) -> io::Result<()>;

    /// Removes an entry, and everything inside if it is a directory. Links are removed, not followed. The entry may be absent.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system. A part may then have been removed.
    fn remove(&self, name: &OsStr) -> io::Result<()>;
}

impl dyn Folder + '_ {
    /// Replaces the file `name` as a whole. `write` makes the new file under the name `unfinished`, and syncs the file if it
    /// must be durable; its final name is durable after [`sync`](Folder::sync).
    ///
    /// # Errors
    ///
    /// Returns the error of the first failing step; the old file is then in place.
    pub fn replace(
        &self,
        name: &OsStr,
        unfinished: &OsStr,
        write: impl FnOnce(&OsStr) -> io::Result<()>,
    ) -> io::Result<()> {
        let replaced = write(unfinished).and_then(|()| self.rename(unfinished, name));
        replaced.inspect_err(|_| {
            // A full disk still lets us clean up (P9); the error to report is the first.
            let _ = self.remove(unfinished);
        })
    }
}

/// An open file to which several processes may add. Each addition is one write to the end that the file has at that moment.
pub trait SharedFile: Send + Debug {
    /// The last byte; `None` when the file is empty.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system.
    fn last_byte(&mut self) -> io::Result<Option<u8>>;

    /// Adds `bytes` to the end. After an error a part may have been written.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system.
    fn add(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Waits until everything that was added is durable.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system.
    fn sync_data(&self) -> io::Result<()>;
}

/// Result of [`Folder::open`].
#[derive(Debug)]
pub enum OpenedEntry {
    /// A regular file.
    File(OpenFile),
    /// A directory.
    Folder(Box<dyn Folder>),
    /// Something that is not opened: a link, pipe, socket or device.
    Other(FileKind),
}

/// A regular file that can be read from its beginning.
pub struct OpenFile {
    /// Permission bits, such as `0o644`.
    pub mode: u32,
    /// The bytes.
    pub content: Box<dyn Read + Send>,
}

impl Debug for OpenFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenFile")
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}
