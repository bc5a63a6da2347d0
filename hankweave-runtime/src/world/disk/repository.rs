//! Whether a file would be inside a git repository, or make a folder one. Git runs programs that a repository's settings
//! name, so a sentinel writes no such file (X13).

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use hankweave_core::hank::reserved::RepositoryShape;

use super::{Folder, OpenedEntry};

impl dyn Folder + '_ {
    /// Whether this folder, or another one on the path `path`, is a git repository or would become one with an entry at `path`.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system, unless an entry does not exist.
    pub fn leads_into_repository(&self, path: &Path) -> io::Result<bool> {
        let mut inner = None::<Box<dyn Folder>>;
        for component in path.components() {
            let Component::Normal(name) = component else {
                continue;
            };
            let folder = inner.as_deref().unwrap_or(self);
            if shape(folder, name)?.is_repository() {
                return Ok(true);
            }
            inner = match folder.open(name) {
                Ok(OpenedEntry::Folder(next)) => Some(next),
                // A missing entry holds nothing, and the write itself refuses an entry that is no folder.
                Ok(OpenedEntry::File(_) | OpenedEntry::Other(_)) => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                Err(error) => return Err(error),
            };
        }
        Ok(false)
    }
}

/// Returns git's view of the folder once it has an entry `name`.
fn shape(folder: &dyn Folder, name: &OsStr) -> io::Result<RepositoryShape> {
    let mut shape = RepositoryShape::default();
    shape.add(name.as_bytes());
    for known in RepositoryShape::NAMES {
        match folder.open(OsStr::new(known)) {
            Ok(_) => shape.add(known.as_bytes()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(shape)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::{Disk, RealDisk};

    // covers: X13
    #[test]
    fn a_file_that_would_make_or_change_a_repository_is_known() {
        let place = tempfile::tempdir().unwrap();
        for folder in ["bare/objects", "bare/refs", "half/objects", "half/refs", "plain"] {
            fs::create_dir_all(place.path().join(folder)).unwrap();
        }
        fs::write(place.path().join("bare/HEAD"), "ref: refs/heads/main").unwrap();
        let folder = RealDisk.open_folder(place.path()).unwrap();
        let leads = |path: &str| folder.leads_into_repository(path.as_ref()).unwrap();
        for path in ["bare/config", "bare/hooks/post-commit", "half/HEAD", "half/head"] {
            assert!(leads(path), "{path}");
        }
        for path in [
            "HEAD",
            "half/config",
            "plain/HEAD",
            "plain/new/HEAD",
            "new/HEAD",
            "bare",
        ] {
            assert!(!leads(path), "{path}");
        }
        fs::write(place.path().join("plain/commondir"), "../bare").unwrap();
        assert!(leads("plain/HEAD"));
    }
}
