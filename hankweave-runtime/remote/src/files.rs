//! Collecting files for a record from a directory, which may change while it is read.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use hankweave_core::hank::reserved::check_written;
use hankweave_runtime::world::disk::{Disk, FileKind, IoError};

use crate::contents::{FileSource, RecordFile};
use crate::error::RemoteError;

/// Maximum depth of nested folders that are searched.
const DEEPEST: usize = 16;

/// Adds the file at `path`, or the files of the folder there, to `contents`, at `place` in the record.
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

/// Collects regular files at or under `path`, in order: path in the record, path on disk, length in bytes. Skips links and
/// everything else. `place` is the path of `path` in the record.
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
                // Skips unfinished files, and names that another machine would refuse.
                let usable = name
                    .to_str()
                    .filter(|name| !name.ends_with(".tmp") && !name.contains('\n'))
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

/// Returns the names in a folder, sorted; none if the folder is missing.
pub(crate) fn list(disk: &dyn Disk, folder: &Path) -> Result<Vec<OsString>, RemoteError> {
    match disk.list_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        listed => Ok(listed.map_err(IoError::at("list", folder))?),
    }
}
