//! Reads the files that a hank names inside its folder, without following links and without waiting for anything (X2).

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use hankweave_core::hank::paths;
use rustix::io::Errno;

use crate::world::disk::{Disk, FileKind, Folder, OpenFile, OpenedEntry, PathError};

/// Longest hank.json, prompt, script, sentinel or other file that a hank names, in bytes.
pub const MAX_FILE_BYTES: u64 = 4 << 20;

/// Why a file that a hank names cannot be used. Messages fit after the path.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RefError {
    /// The spelling of the path is not allowed.
    #[error("{0}")]
    Spelling(&'static str),
    /// A link is on the way or at the end.
    #[error("`{name}` is a symbolic link; a hank holds its files itself")]
    Link {
        /// The name in the path that is a link.
        name: String,
    },
    /// Something else than a regular file.
    #[error("is {kind}, not a regular file")]
    NotAFile {
        /// Kind of the existing entry, such as "a folder".
        kind: &'static str,
    },
    /// More than [`MAX_FILE_BYTES`].
    #[error("is larger than 4 MiB")]
    TooLarge,
    /// Bytes that are no text.
    #[error("is not UTF-8 text")]
    NotUtf8,
    /// The path does not lead to a file, or the system failed to read.
    #[error(transparent)]
    Path(PathError),
}

impl RefError {
    /// Whether the system failed to read: then nothing is known to be wrong with the hank.
    #[must_use]
    pub fn is_of_the_system(&self) -> bool {
        let Self::Path(PathError::Io(error)) = self else {
            return false;
        };
        matches!(
            Errno::from_io_error(error),
            Some(Errno::IO | Errno::STALE | Errno::NOMEM | Errno::MFILE | Errno::NFILE)
        )
    }
}

impl From<PathError> for RefError {
    fn from(error: PathError) -> Self {
        match error {
            PathError::Link { name } => Self::Link { name },
            other => Self::Path(other),
        }
    }
}

impl From<io::Error> for RefError {
    fn from(error: io::Error) -> Self {
        PathError::from(error).into()
    }
}

/// An open entry inside the root.
pub(super) enum HankEntry {
    File(OpenFile),
    Folder(Box<dyn Folder>),
}

/// Opens the file or folder at `reference` inside `root`.
pub(super) fn find(disk: &dyn Disk, root: &Path, reference: &str) -> Result<HankEntry, RefError> {
    let names = paths::reference(reference).map_err(RefError::Spelling)?;
    let found = disk.open_folder(root)?.find(&PathBuf::from_iter(&names))?;
    entry(found, names.last().copied().unwrap_or_default())
}

/// Opens the file or folder `name` in `folder`.
pub(super) fn open_in(folder: &dyn Folder, name: &str) -> Result<HankEntry, RefError> {
    entry(folder.open(name.as_ref())?, name)
}

fn entry(found: OpenedEntry, name: &str) -> Result<HankEntry, RefError> {
    match found {
        OpenedEntry::File(file) => Ok(HankEntry::File(file)),
        OpenedEntry::Folder(inner) => Ok(HankEntry::Folder(inner)),
        OpenedEntry::Other(FileKind::Link) => Err(RefError::Link {
            name: name.to_owned(),
        }),
        OpenedEntry::Other(special) => Err(RefError::NotAFile { kind: kind(special) }),
    }
}

/// Reads a file that may have at most [`MAX_FILE_BYTES`].
fn read(file: OpenFile) -> Result<Vec<u8>, RefError> {
    let mut bytes = Vec::new();
    // One byte more than allowed shows that the file is too large, whatever length the system reports.
    file.content
        .take(MAX_FILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(PathError::Io)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        Err(RefError::TooLarge)
    } else {
        Ok(bytes)
    }
}

/// Reads the text of the file at `reference` inside `root`.
pub(super) fn read_text(disk: &dyn Disk, root: &Path, reference: &str) -> Result<String, RefError> {
    match find(disk, root, reference)? {
        HankEntry::File(file) => {
            let text = String::from_utf8(read(file)?).map_err(|_| RefError::NotUtf8)?;
            // A byte order mark has no meaning for a model.
            Ok(text
                .strip_prefix('\u{feff}')
                .map_or_else(|| text.clone(), str::to_owned))
        }
        HankEntry::Folder(_) => Err(RefError::NotAFile { kind: "a folder" }),
    }
}

/// Reads the regular file at `path`; links are followed, because the user named it.
///
/// # Errors
///
/// [`RefError`] when it is no regular file, too large or cannot be read.
pub fn read_named(disk: &dyn Disk, path: &Path) -> Result<Vec<u8>, RefError> {
    match disk.metadata_followed(path)?.kind {
        FileKind::File => {}
        other => return Err(RefError::NotAFile { kind: kind(other) }),
    }
    disk.read(&disk.real_path(path)?, MAX_FILE_BYTES)
        .map_err(|error| match error.kind() {
            io::ErrorKind::FileTooLarge => RefError::TooLarge,
            _ => error.into(),
        })
}

fn kind(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Directory => "a folder",
        FileKind::Link => "a symbolic link",
        FileKind::Pipe => "a named pipe",
        FileKind::Socket => "a socket",
        FileKind::Device => "a device",
        FileKind::File => "a file",
        FileKind::Unknown => "something unknown",
    }
}
