//! Resolved path for an operation of the real disk: below `.hankweave` no link on the path is followed (X5).
//!
//! A user who can write into the state directory could put a link in the place of a folder of ours, and our writes would
//! appear elsewhere. So paths in the state directory are followed name by name from its open descriptor. Other paths are the
//! user's, and their links are followed.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use hankweave_core::discovery::STATE_DIR;
use rustix::fs::{CWD, Mode, OFlags, RawMode, mkdirat, openat};
use rustix::io::{Errno, retry_on_intr};

use super::beneath::{MissingFolders, descend, open_folder_in};

/// An entry in a state directory, as its open folder and its name; or a path of the user's.
#[derive(Debug)]
pub(super) struct ResolvedPath<'p> {
    /// The open folder of the entry; `None` for a path of the user's.
    folder: Option<OwnedFd>,
    /// Name of the entry in `folder`, or the path of the user's.
    name: &'p Path,
}

impl<'p> ResolvedPath<'p> {
    /// Resolves `path`, whose folder must exist.
    pub(super) fn of(path: &'p Path) -> io::Result<Self> {
        Self::reach(path, MissingFolders::Refuse)
    }

    fn reach(path: &'p Path, missing: MissingFolders) -> io::Result<Self> {
        let Some(state_dir) = state_dir_of(path) else {
            return Ok(Self {
                folder: None,
                name: path,
            });
        };
        let names = path.strip_prefix(state_dir).unwrap_or(path).components();
        let mut names: Vec<&OsStr> = names.map(normal).collect::<io::Result<_>>()?;
        let name = names.pop().unwrap_or_default();
        let folder = descend(
            open_folder_in(CWD, state_dir)?,
            names,
            |parent, name, error| match error {
                Errno::NOENT if missing == MissingFolders::Make => make(parent, name),
                error => Err(error),
            },
        )?;
        Ok(Self {
            folder: Some(folder),
            name: Path::new(name),
        })
    }

    /// The directory to which [`name`](Self::name) is relative: the working directory for a path of the user's.
    pub(super) fn folder(&self) -> BorrowedFd<'_> {
        self.folder.as_ref().map_or(CWD, AsFd::as_fd)
    }

    pub(super) fn name(&self) -> &Path {
        self.name
    }

    /// Whether the path is inside a state directory.
    pub(super) fn is_ours(&self) -> bool {
        self.folder.is_some()
    }

    /// Opens the entry with these flags, unless it is a link.
    pub(super) fn open(&self, flags: OFlags, mode: u32) -> rustix::io::Result<OwnedFd> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        retry_on_intr(|| {
            openat(
                self.folder(),
                self.name,
                flags,
                Mode::from_raw_mode(mode as RawMode),
            )
        })
    }
}

/// Makes the directory `path` inside a state directory, with missing parents. Returns `false` if the path is not in a
/// state directory.
pub(super) fn make_dirs_of_ours(path: &Path) -> io::Result<bool> {
    let place = ResolvedPath::reach(path, MissingFolders::Make)?;
    if place.is_ours() {
        make(place.folder(), place.name().as_os_str())?;
    }
    Ok(place.is_ours())
}

/// Returns the innermost state directory that contains `path`.
pub(super) fn state_dir_of(path: &Path) -> Option<&Path> {
    let mut folders = path.ancestors().skip(1);
    folders.find(|folder| folder.file_name() == Some(OsStr::new(STATE_DIR)))
}

/// Opens the directory `name`. A missing one is made, for its owner alone.
pub(super) fn make(parent: impl AsFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    match mkdirat(&parent, name, Mode::RWXU) {
        Err(Errno::EXIST) => {}
        made => made?,
    }
    open_folder_in(parent, name)
}

fn normal(name: Component<'_>) -> io::Result<&OsStr> {
    match name {
        Component::Normal(name) => Ok(name),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidFilename,
            "a path in the state directory leads nowhere else",
        )),
    }
}
