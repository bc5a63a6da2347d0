//! Files of a directory that may change while it is looked at.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use hankweave_core::hank::reserved::check_written;
use hankweave_runtime::world::disk::{Disk, FileKind, IoError};

use crate::contents::{FileSource, RecordFile};
use crate::error::RemoteError;

/// Number of nested folders that are searched.
const DEEPEST: usize = 16;

/// Adds a file, or the files of a folder.
pub(crate) fn add(
    disk: &dyn Disk,
    path: &Path,
    place: &str,
    contents: &mut Vec<RecordFile>,
) -> Result<(), RemoteError> {
    let mut files = Vec::new();
    walk(disk, path, place, 0, &mut files)?;
    contents.extend(files.into_iter().map(|(path, file, length)| RecordFile {
        path,
        source: FileSource::File(file, length),
    }));
    Ok(())
}

/// Regular files at or beneath `path`, in order: where they stand in the record, where they are, how long they are. Links and everything else are passed over.
pub(crate) fn walk(
    disk: &dyn Disk,
    path: &Path,
    place: &str,
    depth: usize,
    files: &mut Vec<(String, PathBuf, u64)>,
) -> Result<(), RemoteError> {
    let metadata = match disk.metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        metadata => metadata.map_err(IoError::at("look at", path))?,
    };
    match metadata.kind {
        FileKind::File => files.push((place.to_owned(), path.to_owned(), metadata.length)),
        FileKind::Directory if depth < DEEPEST => {
            for name in list(disk, path)? {
                let usable = name
                    .to_str()
                    .filter(|name| !name.ends_with(".tmp") && !name.contains('\n'))
                    // No other machine would write them.
                    .filter(|name| check_written(name.as_bytes()).is_ok());
                if let Some(name) = usable {
                    walk(
                        disk,
                        &path.join(name),
                        &format!("{place}/{name}"),
                        depth + 1,
                        files,
                    )?;
                }
            }
        }
        _ => {}
    }
    Ok(())
}

/// The names in a folder, sorted; none when it is not there.
pub(crate) fn list(disk: &dyn Disk, folder: &Path) -> Result<Vec<OsString>, RemoteError> {
    match disk.list_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        listed => Ok(listed.map_err(IoError::at("list", folder))?),
    }
}
