//! Copies of whole trees: made the same, followed, looked through, and put back. No link is followed on the way.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{File, FileTimes};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, linkat, mkdirat, openat, statat, unlinkat};
use rustix::io::{Errno, retry_on_intr};

use super::super::real::{has_no_links, open_dir};
use super::super::{Disk, RealDisk, open_folder_in, parent, remove_if_present};
use super::{CHECKPOINTS, EVENTS, SESSIONS, TEMPORARY, WRITTEN_THROUGH};

/// A folder that changed less than this ago may change again without a new time.
const SETTLED: Duration = Duration::from_millis(100);

/// How a file is kept twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Means {
    /// By a second name.
    Link,
    /// By its bytes, on another file system.
    Copy,
}

/// Keeper of trees; it finds out by the first file how files can be kept.
#[derive(Debug, Default)]
pub(super) struct Tree {
    means: OnceLock<Means>,
}

/// The folders that were read, relative to the state directory.
pub(super) type Followed = HashMap<PathBuf, FollowedFolder>;

/// A folder as it was when it was read.
#[derive(Debug)]
pub(super) struct FollowedFolder {
    /// When it had changed last; `None` when that was only a moment before.
    changed: Option<(i64, i64)>,
    folders: Vec<OsString>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    is_folder: bool,
    inode: u64,
}

type Entries = HashMap<OsString, Entry>;

/// Reach of a walk in the files of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// All folders.
    Everything,
    /// Those that have changed and that nobody writes through the disk.
    Changed,
}

impl Tree {
    pub(super) fn means(&self) -> Option<Means> {
        self.means.get().copied()
    }

    /// Makes `copy` the same as `state_dir`.
    pub(super) fn mirror(&self, state_dir: &Path, copy: &Path, followed: &mut Followed) -> io::Result<()> {
        followed.clear();
        self.walk(state_dir, copy, followed, Reach::Everything)
    }

    /// Fills with changed files, except those that are written through the disk.
    pub(super) fn follow(&self, state_dir: &Path, copy: &Path, followed: &mut Followed) -> io::Result<()> {
        self.walk(state_dir, copy, followed, Reach::Changed)
    }

    fn walk(&self, state_dir: &Path, copy: &Path, followed: &mut Followed, reach: Reach) -> io::Result<()> {
        let (from, to) = (open(state_dir)?, open(copy)?);
        let (found, kept) = (lasting_entries(&from)?, entries(&to)?);
        for (name, entry) in &found {
            if !entry.is_folder {
                if reach == Reach::Everything {
                    self.same_file(&from, &to, name, *entry, kept.get(name))?;
                }
                continue;
            }
            let through = WRITTEN_THROUGH.iter().any(|through| *through == name);
            if name == TEMPORARY {
                let (Some(from), to) = (enter(&from, name)?, make(&to, name)?) else {
                    continue;
                };
                if let Some(from) = enter(&from, OsStr::new(SESSIONS))? {
                    let to = make(&to, OsStr::new(SESSIONS))?;
                    self.same_folder(&from, &to, &Path::new(TEMPORARY).join(SESSIONS), followed)?;
                }
            } else if reach == Reach::Everything || !through {
                let Some(from) = enter(&from, name)? else { continue };
                let to = make(&to, name)?;
                match through {
                    true => self.same_folder(&from, &to, Path::new(name), &mut Followed::new())?,
                    false => self.same_folder(&from, &to, Path::new(name), followed)?,
                }
            }
        }
        if reach == Reach::Everything {
            for (name, entry) in kept.iter().filter(|(name, _)| !found.contains_key(*name)) {
                remove(&to, name, *entry)?;
            }
        }
        Ok(())
    }

    /// Makes the folder `to` the same as `from`, which is called `name`; one that has not changed is only gone through.
    fn same_folder(
        &self,
        from: &OwnedFd,
        to: &OwnedFd,
        name: &Path,
        followed: &mut Followed,
    ) -> io::Result<()> {
        let changed = changed(from)?;
        let known = followed
            .get(name)
            .filter(|known| known.changed == Some(changed.0));
        let folders = match known {
            Some(known) => known.folders.clone(),
            None => self.same_entries(from, to)?,
        };
        for folder in &folders {
            let path = name.join(folder);
            // Most folders have not changed and have none in them.
            let is_known = followed.get(&path).is_some_and(|known| {
                known.folders.is_empty()
                    && known.changed.is_some()
                    && known.changed == change_of(from, folder)
            });
            if is_known {
                continue;
            }
            if let Some(beneath) = enter(from, folder)? {
                self.same_folder(&beneath, &make(to, folder)?, &path, followed)?;
            }
        }
        let changed = changed.1.then_some(changed.0);
        followed.insert(name.to_owned(), FollowedFolder { changed, folders });
        Ok(())
    }

    /// Makes the files of one folder the same; returns the folders in it.
    fn same_entries(&self, from: &OwnedFd, to: &OwnedFd) -> io::Result<Vec<OsString>> {
        let (found, kept) = (lasting_entries(from)?, entries(to)?);
        let mut folders = Vec::new();
        for (name, entry) in &found {
            match entry.is_folder {
                true => folders.push(name.clone()),
                false => self.same_file(from, to, name, *entry, kept.get(name))?,
            }
        }
        for (name, entry) in kept.iter().filter(|(name, _)| !found.contains_key(*name)) {
            remove(to, name, *entry)?;
        }
        Ok(folders)
    }

    fn same_file(
        &self,
        from: &OwnedFd,
        to: &OwnedFd,
        name: &OsStr,
        entry: Entry,
        kept: Option<&Entry>,
    ) -> io::Result<()> {
        if let Some(kept) = kept {
            let is_same = !kept.is_folder
                && match self.means() {
                    Some(Means::Copy) => is_equal(from, to, name)?,
                    Some(Means::Link) | None => kept.inode == entry.inode,
                };
            if is_same {
                return Ok(());
            }
            remove(to, name, *kept)?;
        }
        match self.put(from, to, name) {
            // A lock or a temporary file that is gone by now.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }

    /// Keeps the file at `from` as `to`, in the place of what is there.
    pub(super) fn place(&self, from: &Path, to: &Path) -> io::Result<()> {
        let target = match open_dir(parent(to)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                RealDisk.make_private_dirs(parent(to))?;
                open_dir(parent(to))?
            }
            opened => opened?,
        };
        remove_if_present(&RealDisk, to)?;
        let source = open_dir(parent(from));
        source.and_then(|source| {
            self.put(
                &source.into(),
                &target.into(),
                from.file_name().unwrap_or_default(),
            )
        })
    }

    /// Gives the file `name` of the folder `from` the same name in `to`, where there must be none.
    fn put(&self, from: &OwnedFd, to: &OwnedFd, name: &OsStr) -> io::Result<()> {
        if self.means() == Some(Means::Copy) {
            return copy(from, to, name);
        }
        match linkat(from, name, to, name, AtFlags::empty()).map_err(io::Error::from) {
            Err(error) if has_no_links(&error) => {
                let _ = self.means.set(Means::Copy);
                copy(from, to, name)
            }
            linked => {
                linked?;
                let _ = self.means.set(Means::Link);
                Ok(())
            }
        }
    }

    /// Whether the checkpoints or the journal in `state_dir` lack something that is kept in `copy`. Others may remove what lies elsewhere by right.
    pub(super) fn lacks(&self, state_dir: &Path, copy: &Path, followed: &Followed) -> bool {
        let lacks = |name: &Path| lacks_entries(&state_dir.join(name), &copy.join(name));
        let Ok(root) = open(state_dir) else { return true };
        let mut checkpoints = followed.iter().filter(|(name, _)| name.starts_with(CHECKPOINTS));
        lacks(Path::new(EVENTS))
            || checkpoints.any(|(name, known)| match change_of(&root, name.as_os_str()) {
                None => true,
                now if now == known.changed => false,
                Some(_) => lacks(name),
            })
    }

    /// Puts all files and folders of `copy` into `state_dir` that it lacks, and counts the files.
    pub(super) fn fill(&self, copy: &Path, state_dir: &Path, files: &mut usize) -> io::Result<()> {
        let (from, to) = (open(copy)?, open(state_dir)?);
        let there = entries(&to)?;
        for (name, entry) in entries(&from)? {
            let through = !entry.is_folder || WRITTEN_THROUGH.iter().any(|through| *through == name);
            self.fill_one((&from, &to), &name, (entry, there.get(&name)), (through, files))?;
        }
        Ok(())
    }

    /// Fills one entry.
    pub(super) fn fill_entry(
        &self,
        copy: &Path,
        state_dir: &Path,
        name: &OsStr,
        files: &mut usize,
    ) -> io::Result<()> {
        let (from, to) = (open(copy)?, open(state_dir)?);
        match entries(&from)?.get(name) {
            Some(entry) => self.fill_one((&from, &to), name, (*entry, None), (false, files)),
            None => Ok(()),
        }
    }

    fn fill_folder(
        &self,
        (from, to): (&OwnedFd, &OwnedFd),
        (through, files): (bool, &mut usize),
    ) -> io::Result<()> {
        let there = entries(to)?;
        for (name, entry) in entries(from)? {
            self.fill_one((from, to), &name, (entry, there.get(&name)), (through, files))?;
        }
        Ok(())
    }

    /// Puts one entry in its place if it is not there. Of what is written `through` the disk another file of that name is an earlier one, which git has put
    /// back from a stash.
    fn fill_one(
        &self,
        (from, to): (&OwnedFd, &OwnedFd),
        name: &OsStr,
        (entry, there): (Entry, Option<&Entry>),
        (through, files): (bool, &mut usize),
    ) -> io::Result<()> {
        if entry.is_folder {
            let Some(from) = enter(from, name)? else {
                return Ok(());
            };
            return match make(to, name) {
                Ok(to) => self.fill_folder((&from, &to), (through, files)),
                // Something of others has the name; a start sets it aside.
                Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(()),
                Err(error) => Err(error),
            };
        }
        if let Some(there) = there {
            let is_linked = self.means() == Some(Means::Link);
            if there.is_folder || !through || !is_linked || there.inode == entry.inode {
                return Ok(());
            }
            remove(to, name, *there)?;
        }
        match self.put(from, to, name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            put => {
                *files += 1;
                put
            }
        }
    }
}

/// Makes everything durable that was written to the file system of `folder`.
#[cfg(target_os = "linux")]
pub(super) fn sync(folder: &Path) -> io::Result<()> {
    Ok(rustix::fs::syncfs(open_dir(folder)?)?)
}

/// Makes everything durable that was written; other systems only know all file systems at once.
#[cfg(not(target_os = "linux"))]
pub(super) fn sync(_folder: &Path) -> io::Result<()> {
    rustix::fs::sync();
    Ok(())
}

/// Whether a file of this name lives for a moment only.
fn is_passing(name: &OsStr) -> bool {
    let name = name.as_bytes();
    name.ends_with(b".tmp") || name.ends_with(b".lock") && !name.ends_with(b"server.lock")
}

fn open(folder: &Path) -> io::Result<OwnedFd> {
    Ok(open_dir(folder)?.into())
}

/// Opens a folder; `None` when it is gone or no folder.
fn enter(parent: &OwnedFd, name: &OsStr) -> io::Result<Option<OwnedFd>> {
    match open_folder_in(parent, name) {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        opened => Ok(Some(opened?)),
    }
}

/// Opens a folder and makes it when it is missing.
fn make(parent: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
    match mkdirat(parent, name, Mode::RWXU) {
        Err(Errno::EXIST) => {}
        made => made?,
    }
    Ok(open_folder_in(parent, name)?)
}

/// The files and folders in a folder; links and what else there may be are no part of a record.
fn entries(folder: &OwnedFd) -> io::Result<Entries> {
    let mut found = Entries::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if matches!(name.as_bytes(), b"." | b"..") {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => continue,
                seen => FileType::from_raw_mode(seen?.st_mode),
            },
            kind => kind,
        };
        let is_folder = match kind {
            FileType::Directory => true,
            FileType::RegularFile => false,
            _ => continue,
        };
        let inode = entry.ino();
        found.insert(name.to_owned(), Entry { is_folder, inode });
    }
    Ok(found)
}

/// Returns the entries that live longer than a moment.
fn lasting_entries(folder: &OwnedFd) -> io::Result<Entries> {
    let mut found = entries(folder)?;
    found.retain(|name, entry| entry.is_folder || !is_passing(name));
    Ok(found)
}

/// When a folder changed last, and whether that is long enough ago to tell a later change from it.
fn changed(folder: &OwnedFd) -> io::Result<((i64, i64), bool)> {
    let metadata = File::from(folder.try_clone()?).metadata()?;
    let age = SystemTime::now().duration_since(metadata.modified()?);
    let is_settled = age.is_ok_and(|age| age > SETTLED);
    Ok(((metadata.mtime(), metadata.mtime_nsec()), is_settled))
}

/// When the folder `name` in an open one changed last; `None` when it is gone.
fn change_of(folder: &OwnedFd, name: &OsStr) -> Option<(i64, i64)> {
    let seen = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let is_folder = FileType::from_raw_mode(seen.st_mode) == FileType::Directory;
    is_folder.then(|| {
        (
            seen.st_mtime,
            i64::try_from(seen.st_mtime_nsec).unwrap_or_default(),
        )
    })
}

/// Whether the folder `there` lacks a name that `kept` has.
pub(super) fn lacks_entries(there: &Path, kept: &Path) -> bool {
    let Ok(kept) = open(kept).and_then(|kept| entries(&kept)) else {
        return false;
    };
    match open(there).and_then(|there| entries(&there)) {
        Ok(there) => kept.keys().any(|name| !there.contains_key(name)),
        Err(_) => true,
    }
}

fn remove(folder: &OwnedFd, name: &OsStr, entry: Entry) -> io::Result<()> {
    if !entry.is_folder {
        return match unlinkat(folder, name, AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            removed => Ok(removed?),
        };
    }
    if let Some(beneath) = enter(folder, name)? {
        // What passes is no entry, and is removed all the same.
        for found in Dir::read_from(&beneath)? {
            let found = found?;
            let name = OsStr::from_bytes(found.file_name().to_bytes());
            if matches!(name.as_bytes(), b"." | b"..") {
                continue;
            }
            let is_folder = enter(&beneath, name)?.is_some();
            remove(&beneath, name, Entry { is_folder, inode: 0 })?;
        }
    }
    Ok(unlinkat(folder, name, AtFlags::REMOVEDIR)?)
}

/// Whether a file was copied as it is now: of the same length and time.
fn is_equal(from: &OwnedFd, to: &OwnedFd, name: &OsStr) -> io::Result<bool> {
    let look = |folder: &OwnedFd| statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
    match (look(from), look(to)) {
        (Ok(from), Ok(to)) => {
            Ok((from.st_size, from.st_mtime, from.st_mtime_nsec)
                == (to.st_size, to.st_mtime, to.st_mtime_nsec))
        }
        _ => Ok(false),
    }
}

/// Copies a file with the time when it was changed, by which the copy is known.
fn copy(from: &OwnedFd, to: &OwnedFd, name: &OsStr) -> io::Result<()> {
    let open = |folder: &OwnedFd, flags: OFlags| {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        retry_on_intr(|| openat(folder.as_fd(), name, flags, Mode::RUSR | Mode::WUSR))
    };
    let mut source = File::from(open(from, OFlags::RDONLY | OFlags::NONBLOCK)?);
    let mut target = File::from(open(to, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)?);
    let changed = source.metadata()?.modified()?;
    io::copy(&mut source, &mut target)?;
    target.set_times(FileTimes::new().set_modified(changed))
}
