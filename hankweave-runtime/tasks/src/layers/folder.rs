//! File operations that all layers use.

use std::ffi::OsStr;
use std::io::{self, Read};

use hankweave_runtime::world::disk::{Folder, OpenedEntry};
use rustix::io::Errno;

use super::{LARGEST, PACKED, UNFINISHED_FILE};

/// Opens the folder `name` in `parent`, if it exists; never follows a link.
pub(super) fn enter(parent: &dyn Folder, name: &str) -> io::Result<Option<Box<dyn Folder>>> {
    match parent.open(OsStr::new(name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => match found? {
            OpenedEntry::Folder(folder) => Ok(Some(folder)),
            OpenedEntry::File(_) | OpenedEntry::Other(_) => Err(io::Error::new(
                io::ErrorKind::NotADirectory,
                format!("`{name}` is not a folder"),
            )),
        },
    }
}

/// Opens the folder. If it is missing, creates it durably.
pub(super) fn enter_or_make(parent: &dyn Folder, name: &str) -> io::Result<Box<dyn Folder>> {
    if let Some(folder) = enter(parent, name)? {
        return Ok(folder);
    }
    match parent.create_folder(OsStr::new(name)) {
        // Another process was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => made.and_then(|()| parent.sync())?,
    }
    enter(parent, name)?.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Opens the regular file `name` for reading, if it exists.
pub(super) fn open(folder: &dyn Folder, name: &str) -> io::Result<Option<Box<dyn Read + Send>>> {
    match folder.open(OsStr::new(name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => match found? {
            OpenedEntry::File(file) => Ok(Some(file.content)),
            OpenedEntry::Folder(_) | OpenedEntry::Other(_) => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("`{name}` is not a regular file"),
            )),
        },
    }
}

/// Reads a whole file that may be absent.
pub(super) fn read(folder: &dyn Folder, name: &str) -> io::Result<Option<Vec<u8>>> {
    open(folder, name)?.map(read_all).transpose()
}

/// Reads a whole file that may be absent or packed.
pub(super) fn read_unpacked(folder: &dyn Folder, name: &str) -> io::Result<Option<Vec<u8>>> {
    if let Some(bytes) = read(folder, name)? {
        return Ok(Some(bytes));
    }
    let packed = open(folder, &format!("{name}{PACKED}"))?;
    packed
        .map(|file| read_all(flate2::read::GzDecoder::new(file)))
        .transpose()
}

fn read_all(file: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > LARGEST {
        true => Err(io::ErrorKind::FileTooLarge.into()),
        false => Ok(bytes),
    }
}

/// Whether the error says nothing about the file: the system lacks a resource at this moment (TASK-94).
pub(super) fn is_temporary(error: &io::Error) -> bool {
    let resource_errors = [Errno::MFILE, Errno::NFILE, Errno::NOMEM];
    Errno::from_io_error(error).is_some_and(|error| resource_errors.contains(&error))
}

/// Writes a new file and makes its content durable. Its name becomes durable with [`Folder::sync`].
pub(super) fn create(folder: &dyn Folder, name: &str, bytes: &[u8]) -> io::Result<()> {
    let mut file = folder.open_shared(OsStr::new(name))?;
    file.add(bytes)?;
    file.sync_data()
}

/// Replaces a file as a whole: after a crash either the old or the new one exists. `nonce` makes the name of the unfinished file unique.
pub(super) fn replace(folder: &dyn Folder, name: &str, nonce: &str, bytes: &[u8]) -> io::Result<()> {
    let unfinished = format!("{name}.{nonce}{UNFINISHED_FILE}");
    folder.replace(name.as_ref(), unfinished.as_ref(), |_| {
        create(folder, &unfinished, bytes)
    })?;
    folder.sync()
}
