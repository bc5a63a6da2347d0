//! Opens files beneath a folder, step by step, without following links and without waiting for anything.
//!
//! Implements "reliability and security", X2: each name of a path is opened relative to the folder before it, so nobody
//! can swap a folder for a link between the check and the use.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use hankweave_core::hank::paths;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, openat, statat};
use rustix::io::Errno;

/// Prompts, scripts, sentinels and hank.json itself may not be larger.
pub const MAX_FILE_BYTES: u64 = 4 << 20;

/// Why a file that a hank names cannot be used. Messages fit behind the path.
#[derive(Debug, thiserror::Error)]
pub enum RefError {
    /// The spelling of the path is not allowed.
    #[error("{0}")]
    Spelling(&'static str),
    /// Nothing is there.
    #[error("does not exist")]
    Missing,
    /// A link is on the way or at the end.
    #[error("`{name}` is a symbolic link; a hank holds its files itself")]
    Link {
        /// The name in the path that is a link.
        name: String,
    },
    /// A name on the way is no folder.
    #[error("`{name}` is not a folder")]
    NotAFolder {
        /// The name in the path.
        name: String,
    },
    /// Something else than a regular file.
    #[error("is {kind}, not a regular file")]
    NotAFile {
        /// What is there, such as "a folder".
        kind: &'static str,
    },
    /// More than [`MAX_FILE_BYTES`].
    #[error("is larger than 4 MiB")]
    TooLarge,
    /// Bytes that are no text.
    #[error("is not UTF-8 text")]
    NotUtf8,
    /// The operating system refused.
    #[error("cannot be read")]
    Io(#[source] io::Error),
}

impl From<Errno> for RefError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::NOENT => Self::Missing,
            other => Self::Io(other.into()),
        }
    }
}

/// Something beneath the root, opened.
pub(super) enum Found {
    File(File),
    Folder(OwnedFd),
}

/// Opens the file or folder at `reference` beneath `root`.
pub(super) fn find(root: &Path, reference: &str) -> Result<Found, RefError> {
    let names = paths::reference(reference).map_err(RefError::Spelling)?;
    let mut folder = open_root(root)?;
    let (last, folders) = names.split_last().ok_or(RefError::Missing)?;
    for name in folders {
        folder = match open_in(&folder, name)? {
            Found::Folder(inner) => inner,
            Found::File(_) => {
                return Err(RefError::NotAFolder {
                    name: (*name).to_owned(),
                });
            }
        };
    }
    open_in(&folder, last)
}

/// Opens the file or folder `name` in `folder`.
pub(super) fn open_in(folder: impl AsFd, name: &str) -> Result<Found, RefError> {
    // Looked at first, because merely opening some devices does something.
    let seen = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    match FileType::from_raw_mode(seen.st_mode) {
        FileType::Symlink => {
            return Err(RefError::Link {
                name: name.to_owned(),
            });
        }
        FileType::RegularFile | FileType::Directory => {}
        special => return Err(RefError::NotAFile { kind: kind(special) }),
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = openat(&folder, name, flags, Mode::empty()).map_err(|errno| match errno {
        Errno::LOOP => RefError::Link {
            name: name.to_owned(),
        },
        other => other.into(),
    })?;
    match FileType::from_raw_mode(fstat(&opened)?.st_mode) {
        FileType::RegularFile => Ok(Found::File(opened.into())),
        FileType::Directory => Ok(Found::Folder(opened)),
        special => Err(RefError::NotAFile { kind: kind(special) }),
    }
}

/// Reads a file that may have at most [`MAX_FILE_BYTES`].
pub(super) fn read(file: File) -> Result<Vec<u8>, RefError> {
    let mut bytes = Vec::new();
    // One byte more than allowed shows that there is more, whatever the file claims to be long.
    file.take(MAX_FILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(RefError::Io)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        Err(RefError::TooLarge)
    } else {
        Ok(bytes)
    }
}

/// Reads the text of the file at `reference` beneath `root`.
pub(super) fn read_text(root: &Path, reference: &str) -> Result<String, RefError> {
    match find(root, reference)? {
        Found::File(file) => String::from_utf8(read(file)?).map_err(|_| RefError::NotUtf8),
        Found::Folder(_) => Err(RefError::NotAFile { kind: "a folder" }),
    }
}

/// Opens the regular file at `path`; links are followed, because the user named it.
pub(super) fn open_named(path: &Path) -> Result<File, RefError> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::empty())?;
    match FileType::from_raw_mode(fstat(&opened)?.st_mode) {
        FileType::RegularFile => Ok(opened.into()),
        other => Err(RefError::NotAFile { kind: kind(other) }),
    }
}

fn open_root(root: &Path) -> Result<OwnedFd, RefError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(root, flags, Mode::empty())?)
}

fn kind(file_type: FileType) -> &'static str {
    match file_type {
        FileType::Directory => "a folder",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a named pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::RegularFile => "a file",
        FileType::Unknown => "something unknown",
    }
}
