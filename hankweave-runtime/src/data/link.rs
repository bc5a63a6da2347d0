//! The link in the workspace through which agents reach the data: for a folder a link to it, for a file a folder with a link
//! to the file.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use hankweave_core::hank::exclude::DATA;

use super::Data;
use crate::world::disk::{Disk, FileKind, Folder, OpenedEntry};

/// Makes the link, or renews one of ours that leads elsewhere. Fails with [`AlreadyExists`](io::ErrorKind::AlreadyExists)
/// when an entry of this name exists that we did not make.
pub(super) fn link(disk: &dyn Disk, workspace: &Path, data: &Data) -> io::Result<()> {
    let root = disk.open_folder(workspace)?;
    let name = OsStr::new(DATA);
    match root.open(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return make(&*root, data),
        Err(error) => return Err(error),
        Ok(OpenedEntry::Other(FileKind::Link)) => {
            if !data.is_file && root.read_link(name)? == data.path {
                return Ok(());
            }
        }
        Ok(OpenedEntry::Folder(folder)) => match only_link(&*folder)? {
            Some(target) if data.is_file && target == data.path => return Ok(()),
            Some(_) => {}
            None => return Err(io::ErrorKind::AlreadyExists.into()),
        },
        Ok(OpenedEntry::File(_) | OpenedEntry::Other(_)) => return Err(io::ErrorKind::AlreadyExists.into()),
    }
    root.remove(name)?;
    make(&*root, data)
}

/// Returns the target of the link in `folder` if the folder holds one link and nothing else: then we made the folder.
fn only_link(folder: &dyn Folder) -> io::Result<Option<PathBuf>> {
    let names = folder.names()?;
    let [name] = names.as_slice() else {
        return Ok(None);
    };
    match folder.open(name)? {
        OpenedEntry::Other(FileKind::Link) => folder.read_link(name).map(Some),
        OpenedEntry::File(_) | OpenedEntry::Folder(_) | OpenedEntry::Other(_) => Ok(None),
    }
}

fn make(root: &dyn Folder, data: &Data) -> io::Result<()> {
    let link = match data.path.file_name().filter(|_| data.is_file) {
        Some(file) => Path::new(DATA).join(file),
        None => DATA.into(),
    };
    Ok(root.make(&link, |folder, name| folder.create_link(name, &data.path))?)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::world::disk::RealDisk;

    // covers: RUN-7
    #[test]
    fn the_link_is_made_renewed_and_never_put_over_something_else() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().canonicalize().unwrap();
        fs::create_dir(place.join("work")).unwrap();
        fs::create_dir(place.join("data")).unwrap();
        fs::write(place.join("data/a.csv"), "1").unwrap();
        fs::write(place.join("b.csv"), "2").unwrap();
        let linked = place.join("work").join(DATA);
        let bring = |path: &str, is_file: bool| {
            let path = place.join(path);
            link(&RealDisk, &place.join("work"), &Data { path, is_file })
        };
        for _ in 0..2 {
            bring("data", false).unwrap();
            assert_eq!(fs::read_to_string(linked.join("a.csv")).unwrap(), "1");
        }
        for _ in 0..2 {
            bring("b.csv", true).unwrap();
            assert_eq!(fs::read_to_string(linked.join("b.csv")).unwrap(), "2");
        }
        bring("data", false).unwrap();
        assert!(
            place.join("data/a.csv").exists(),
            "what a link leads to is not removed"
        );
        fs::remove_file(&linked).unwrap();
        fs::create_dir(&linked).unwrap();
        fs::write(linked.join("mine"), "3").unwrap();
        symlink("/tmp", linked.join("other")).unwrap();
        assert_eq!(
            bring("data", false).unwrap_err().kind(),
            io::ErrorKind::AlreadyExists
        );
        assert!(linked.join("mine").exists());
    }
}
