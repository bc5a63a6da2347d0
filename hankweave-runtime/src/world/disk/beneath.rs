//! Paths below an open folder, entered name by name and through no link (X2, X3, X11). The methods of [`Folder`] do so on any
//! disk, [`descend`] with descriptors of the real system.
//!
//! Each name is opened relative to the folder before it. If a path were checked first and opened as a whole afterwards, a
//! link that was made in between would be followed.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::{Errno, retry_on_intr};
use rustix::path::Arg;

use super::{FileKind, Folder, OpenedEntry};

/// Reason why a path below a folder cannot be reached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// The entry, or a folder on the path, does not exist.
    #[error("does not exist")]
    Missing,
    /// The path leads through a link.
    #[error("`{name}` is a symbolic link")]
    Link {
        /// Name of the link.
        name: String,
    },
    /// The path leads through an entry that is not a folder.
    #[error("`{name}` is not a folder")]
    NotAFolder {
        /// Name of the entry.
        name: String,
    },
    /// The path is empty or absolute, or contains `..`.
    #[error("leads out of its folder")]
    Outside,
    /// The system failed, or did not permit it.
    #[error("cannot be read")]
    Io(#[source] io::Error),
}

impl From<io::Error> for PathError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::Missing,
            _ => Self::Io(error),
        }
    }
}

impl From<PathError> for io::Error {
    fn from(error: PathError) -> Self {
        let kind = match error {
            PathError::Io(error) => return error,
            PathError::Missing => io::ErrorKind::NotFound,
            PathError::Link { .. } | PathError::NotAFolder { .. } => io::ErrorKind::NotADirectory,
            PathError::Outside => io::ErrorKind::InvalidFilename,
        };
        Self::new(kind, error)
    }
}

/// Treatment of missing folders on the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MissingFolders {
    Refuse,
    Make,
}

impl dyn Folder + '_ {
    /// Opens the entry at `path`.
    ///
    /// # Errors
    ///
    /// [`PathError`] if it does not exist or cannot be reached without a link.
    pub fn find(&self, path: &Path) -> Result<OpenedEntry, PathError> {
        self.at(path, |folder, name| folder.open(name))
    }

    /// Opens the entry at `path`; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// Returns the errors of `find`, except for [`PathError::Missing`].
    pub fn lookup(&self, path: &Path) -> Result<Option<OpenedEntry>, PathError> {
        match self.find(path) {
            Err(PathError::Missing) => Ok(None),
            found => found.map(Some),
        }
    }

    /// Calls `act` with the folder of `path` and the name of the entry in it, which need not exist.
    ///
    /// # Errors
    ///
    /// Returns the errors of `find` for the folder, and the error of `act`.
    pub fn at<T>(
        &self,
        path: &Path,
        act: impl FnOnce(&dyn Folder, &OsStr) -> io::Result<T>,
    ) -> Result<T, PathError> {
        self.reach(path, MissingFolders::Refuse, act)
    }

    /// Like `at`, but creates the missing folders of `path` first.
    ///
    /// # Errors
    ///
    /// Returns the errors of `at`, and the failure to create a folder.
    pub fn make<T>(
        &self,
        path: &Path,
        act: impl FnOnce(&dyn Folder, &OsStr) -> io::Result<T>,
    ) -> Result<T, PathError> {
        self.reach(path, MissingFolders::Make, act)
    }

    /// Enters the folders of `path`, and calls `act` with the last one and the last name.
    fn reach<T>(
        &self,
        path: &Path,
        missing: MissingFolders,
        act: impl FnOnce(&dyn Folder, &OsStr) -> io::Result<T>,
    ) -> Result<T, PathError> {
        let names = names(path)?;
        let (name, folders) = names.split_last().ok_or(PathError::Outside)?;
        let folder = self.enter(folders, missing)?;
        Ok(act(innermost(&folder, self), name)?)
    }

    /// Opens the folder at `path`; `None` for the empty path, which is this folder.
    ///
    /// # Errors
    ///
    /// Returns the errors of `find`.
    pub fn folder(&self, path: &Path) -> Result<Option<Box<dyn Folder>>, PathError> {
        self.enter(&names(path)?, MissingFolders::Refuse)
    }

    fn enter(&self, names: &[&OsStr], missing: MissingFolders) -> Result<Option<Box<dyn Folder>>, PathError> {
        let mut entered = None::<Box<dyn Folder>>;
        for name in names {
            entered = Some(enter(innermost(&entered, self), name, missing)?);
        }
        Ok(entered)
    }

    /// Calls `visit` for each entry of this folder, ordered by name, and of each folder that `visit` returns, before the next entry.
    ///
    /// # Errors
    ///
    /// The first error of `visit`. For a folder that cannot be listed, `visit` gets that error in place of a name.
    pub fn walk<E>(&self, visit: &mut Visit<'_, E>) -> Result<(), E> {
        walk(self, Path::new(""), visit)
    }
}

/// Visitor of a walk: gets a folder, the path of an entry in it relative to the first folder, and the entry's name. Returns the folder to enter, if any.
pub type Visit<'v, E> =
    dyn FnMut(&dyn Folder, &Path, io::Result<&OsStr>) -> Result<Option<Box<dyn Folder>>, E> + 'v;

fn walk<E>(folder: &dyn Folder, path: &Path, visit: &mut Visit<'_, E>) -> Result<(), E> {
    let names = match folder.names() {
        Ok(names) => names,
        Err(error) => return visit(folder, path, Err(error)).map(drop),
    };
    for name in names {
        let entry = path.join(&name);
        if let Some(inner) = visit(folder, &entry, Ok(&name))? {
            walk(&*inner, &entry, visit)?;
        }
    }
    Ok(())
}

fn innermost<'f>(entered: &'f Option<Box<dyn Folder>>, first: &'f dyn Folder) -> &'f dyn Folder {
    match entered {
        Some(folder) => &**folder,
        None => first,
    }
}

fn names(path: &Path) -> Result<Vec<&OsStr>, PathError> {
    let name = |component| match component {
        Component::Normal(name) => Ok(name),
        _ => Err(PathError::Outside),
    };
    path.components().map(name).collect()
}

fn enter(folder: &dyn Folder, name: &OsStr, missing: MissingFolders) -> Result<Box<dyn Folder>, PathError> {
    let found = match folder.open(name) {
        Err(error) if missing == MissingFolders::Make && error.kind() == io::ErrorKind::NotFound => {
            match folder.create_folder(name) {
                // Another process created it meanwhile, perhaps as a link: it is opened and checked like any entry.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                created => created?,
            }
            folder.open(name)
        }
        found => found,
    }?;
    let name = || name.to_string_lossy().into_owned();
    match found {
        OpenedEntry::Folder(inner) => Ok(inner),
        OpenedEntry::Other(FileKind::Link) => Err(PathError::Link { name: name() }),
        OpenedEntry::File(_) | OpenedEntry::Other(_) => Err(PathError::NotAFolder { name: name() }),
    }
}

/// Opens the folder at the end of `names`, from `folder` on. Where a name cannot be opened as a folder, `instead` gets the
/// parent, the name and the error, and returns the folder to continue in.
pub(crate) fn descend<N: Arg + Copy>(
    mut folder: OwnedFd,
    names: impl IntoIterator<Item = N>,
    instead: impl Fn(&OwnedFd, N, Errno) -> rustix::io::Result<OwnedFd>,
) -> rustix::io::Result<OwnedFd> {
    for name in names {
        folder = open_folder_in(&folder, name).or_else(|error| instead(&folder, name, error))?;
    }
    Ok(folder)
}

/// Opens the folder `name` in `parent`; fails for a link.
pub(crate) fn open_folder_in(parent: impl AsFd, name: impl Arg + Copy) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    retry_on_intr(|| openat(&parent, name, flags, Mode::empty()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use super::super::{Disk, RealDisk};
    use super::*;

    fn stage() -> (tempfile::TempDir, Box<dyn Folder>) {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir_all(place.path().join("root/a/b")).unwrap();
        fs::write(place.path().join("root/a/b/file"), "x").unwrap();
        fs::write(place.path().join("secret"), "x").unwrap();
        symlink("../..", place.path().join("root/a/out")).unwrap();
        let folder = RealDisk.open_folder(&place.path().join("root")).unwrap();
        (place, folder)
    }

    // covers: SENT-11
    #[test]
    fn a_folder_that_many_need_at_once_is_made_for_all_of_them() {
        let place = tempfile::tempdir().unwrap();
        for round in 0..100 {
            let path = PathBuf::from(format!("{round}/inner/file"));
            let make = |number: usize| {
                let folder = RealDisk.open_folder(place.path()).unwrap();
                folder.make(&path, |folder, name| {
                    folder.append_file(name, format!("{number}\n").as_bytes())
                })
            };
            std::thread::scope(|scope| {
                let makers: Vec<_> = (0..4).map(|number| scope.spawn(move || make(number))).collect();
                makers
                    .into_iter()
                    .for_each(|maker| maker.join().unwrap().unwrap());
            });
            assert_eq!(
                fs::read_to_string(place.path().join(&path))
                    .unwrap()
                    .lines()
                    .count(),
                4
            );
        }
    }

    // covers: X2, X3, X11
    #[test]
    fn no_way_leads_out_of_a_folder() {
        let (place, folder) = stage();
        assert!(matches!(
            folder.find("a/b/file".as_ref()),
            Ok(OpenedEntry::File(_))
        ));
        for (path, kind) in [
            ("a/out/secret", io::ErrorKind::NotADirectory),
            ("a/b/file/x", io::ErrorKind::NotADirectory),
            ("../secret", io::ErrorKind::InvalidFilename),
            ("a/../../secret", io::ErrorKind::InvalidFilename),
            ("/etc/passwd", io::ErrorKind::InvalidFilename),
            ("", io::ErrorKind::InvalidFilename),
            ("a/none/x", io::ErrorKind::NotFound),
        ] {
            let path = Path::new(path);
            assert_eq!(
                io::Error::from(folder.find(path).unwrap_err()).kind(),
                kind,
                "{path:?}"
            );
            let write = |folder: &dyn Folder, name: &OsStr| folder.create_file(name, 0o600, &mut io::empty());
            assert_eq!(
                folder.make(path, write).is_ok(),
                kind == io::ErrorKind::NotFound,
                "{path:?}"
            );
        }
        assert!(place.path().join("root/a/none/x").exists());
        assert!(matches!(folder.lookup("a/nothing".as_ref()), Ok(None)));
        assert!(matches!(folder.folder("".as_ref()), Ok(None)));
        assert!(folder.folder("a/b".as_ref()).unwrap().is_some());
    }

    #[test]
    fn a_walk_goes_where_it_is_led_and_follows_no_link() {
        let (_place, folder) = stage();
        let mut seen = Vec::new();
        let visited: io::Result<()> = folder.walk(&mut |folder, path, name| {
            seen.push(path.display().to_string());
            match folder.open(name?)? {
                OpenedEntry::Folder(inner) => Ok(Some(inner)),
                OpenedEntry::File(_) | OpenedEntry::Other(_) => Ok(None),
            }
        });
        visited.unwrap();
        assert_eq!(seen, ["a", "a/b", "a/b/file", "a/out"]);
    }
}
