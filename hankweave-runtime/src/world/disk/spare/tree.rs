//! The two trees of a state directory and its spare record: mirroring from the first to the second, comparing, and putting
//! back from the second to the first. No link is followed.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{File, FileTimes};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, Mode, OFlags, Stat, linkat, openat, statat};
use rustix::io::{Errno, retry_on_intr};

use super::super::place::make;
use super::super::real::{has_no_links, open_dir, open_regular_in};
use super::super::real_folder::{list_in, remove_in};
use super::super::{Disk, FileKind, RealDisk, open_folder_in, parent, remove_if_present, sync_file_system};
use super::{CHECKPOINTS, EVENTS, LOGS, is_kept, is_written_through};

/// A folder that changed less than this ago may change again without a new time of change.
const SETTLED: Duration = Duration::from_millis(100);

/// The folders that were mirrored, relative to the state directory, each with its time of change then.
pub(super) type Mirrored = HashMap<PathBuf, ChangeTime>;

/// Time of a folder's last change, in seconds since 1970 and nanoseconds.
type ChangeTime = (i64, i64);

/// Stands for the time of a folder that may change again without a new time.
const UNSETTLED: ChangeTime = (i64::MIN, 0);

type Entries = HashMap<OsString, Entry>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    kind: FileKind,
    /// Number (inode) of the file on its file system: two names of one file have one number.
    number: u64,
}

#[cfg(test)]
thread_local! {
    /// Number of files that were compared with their second name in the thread of a test.
    pub(super) static COMPARED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Makes `copy` equal to `state_dir`: each file there has a second name in `copy`, or its bytes on another file system.
///
/// A folder that is known in `mirrored` and has not changed since is passed over. Except for the first time, when `mirrored`
/// is empty, folders that are written through the disk are passed over, too.
pub(super) fn mirror(state_dir: &Path, copy: &Path, mirrored: &mut Mirrored) -> io::Result<()> {
    let is_first = mirrored.is_empty();
    mirror_folder(&open(state_dir)?, &open(copy)?, Path::new(""), is_first, mirrored)
}

fn mirror_folder(
    from: &OwnedFd,
    to: &OwnedFd,
    place: &Path,
    is_first: bool,
    mirrored: &mut Mirrored,
) -> io::Result<()> {
    // Taken before the folder is read: a file that is added meanwhile is found the next time.
    let change = settled_change(&rustix::fs::fstat(from)?);
    let is_known = mirrored.get(place) == Some(&change) && change != UNSETTLED;
    let mut found = entries(from)?;
    found.retain(|name, entry| {
        is_kept(&place.join(name)) && (entry.kind == FileKind::Directory || !is_short_lived(name))
    });
    // The files of the state directory itself are written through the disk.
    if !is_known && (is_first || !place.as_os_str().is_empty()) {
        mirror_files(from, to, &found)?;
    }
    for (name, _) in found
        .iter()
        .filter(|(_, entry)| entry.kind == FileKind::Directory)
    {
        let place = place.join(name);
        let stat = statat(from, name.as_os_str(), AtFlags::SYMLINK_NOFOLLOW);
        // A folder with two links has no folders inside, so an unchanged one need not be entered.
        let is_unchanged_leaf =
            |stat: &Stat| stat.st_nlink == 2 && mirrored.get(&place) == Some(&change_of(stat));
        if (!is_first && is_written_through(&place)) || stat.as_ref().is_ok_and(is_unchanged_leaf) {
            continue;
        }
        if let Some(beneath) = enter(from, name)? {
            mirror_folder(&beneath, &make(to, name)?, &place, is_first, mirrored)?;
        }
    }
    mirrored.insert(place.to_owned(), change);
    Ok(())
}

/// Makes the files of the folder `to` equal to those of `from`, which are `found`, and removes the others.
///
/// A name of the same inode in both folders is passed over without a system call, so a folder of many files costs little
/// more than its list.
fn mirror_files(from: &OwnedFd, to: &OwnedFd, found: &Entries) -> io::Result<()> {
    let kept = entries(to)?;
    let can_share = rustix::fs::fstat(from)?.st_dev == rustix::fs::fstat(to)?.st_dev;
    for (name, entry) in found.iter().filter(|(_, entry)| entry.kind == FileKind::File) {
        if let Some(second) = kept.get(name) {
            if (can_share && entry == second) || is_equal(from, to, name) {
                continue;
            }
            remove_in(to, name)?;
        }
        match put(from, to, name) {
            // The file no longer exists, such as a lock or a temporary file.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            done => done?,
        }
    }
    for name in kept.keys().filter(|name| !found.contains_key(*name)) {
        remove_in(to, name)?;
    }
    Ok(())
}

/// Keeps the file `from` of the state directory as `to` in the spare record, in place of an existing file.
pub(super) fn keep(from: &Path, to: &Path) -> io::Result<()> {
    let target = match open(parent(to)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            RealDisk.make_private_dirs(parent(to))?;
            open(parent(to))?
        }
        opened => opened?,
    };
    let source = open(parent(from))?;
    let name = from.file_name().unwrap_or_default();
    remove_if_present(&RealDisk, to)?;
    put(&source, &target, name)
}

/// Puts the entries of `copy` that `wants` selects by name into `state_dir`, if they are missing there, durably. Returns
/// whether a file was missing or replaced.
pub(super) fn put_back(copy: &Path, state_dir: &Path, wants: impl Fn(&OsStr) -> bool) -> io::Result<bool> {
    let (from, to) = (open(copy)?, open(state_dir)?);
    let mut wanted = entries(&from)?;
    wanted.retain(|name, _| wants(name));
    let has_lacked = put_back_entries((&from, &to), wanted, Path::new(""))?;
    if has_lacked {
        sync(state_dir)?;
        RealDisk.sync_dir(parent(state_dir))?;
    }
    Ok(has_lacked)
}

fn put_back_entries((from, to): (&OwnedFd, &OwnedFd), wanted: Entries, place: &Path) -> io::Result<bool> {
    let existing = entries(to)?;
    let mut has_lacked = false;
    for (name, entry) in wanted {
        let place = place.join(&name);
        if entry.kind == FileKind::File {
            let kind = existing.get(&name).map(|existing| existing.kind);
            has_lacked |= put_back_file((from, to), &place, kind)?;
            continue;
        }
        let Some(from) = enter(from, &name)? else { continue };
        match make(to, &name) {
            // An entry of others, which is no folder, has the name; a start moves it aside.
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {}
            to => has_lacked |= put_back_entries((&from, &to?), entries(&from)?, &place)?,
        }
    }
    Ok(has_lacked)
}

/// Puts the file at `place` back; `existing` is the kind of an entry that has its name in the state directory. If the file
/// is written through the disk, an unequal file of its name is an earlier one, which git has put back from a stash: it is
/// replaced. Returns whether the file was missing or replaced.
fn put_back_file(
    (from, to): (&OwnedFd, &OwnedFd),
    place: &Path,
    existing: Option<FileKind>,
) -> io::Result<bool> {
    let name = place.file_name().unwrap_or_default();
    // Our own log is in a folder of files that are written through the disk, but its lines are not.
    let is_ours = place.components().count() == 1 || is_written_through(place) && !place.starts_with(LOGS);
    match existing {
        Some(kind) if kind == FileKind::Directory || !is_ours || is_equal(from, to, name) => {
            return Ok(false);
        }
        Some(_) => remove_in(to, name)?,
        None => {}
    }
    // If the file has another name, an agent has moved it away, or another program has linked it. Then the state directory
    // gets a copy, so that later writes do not change that file.
    let is_elsewhere = statat(from, name, AtFlags::SYMLINK_NOFOLLOW)?.st_nlink > 1;
    let done = match is_elsewhere {
        true => copy(from, to, name).and_then(|()| {
            remove_in(from, name)?;
            put(to, from, name)
        }),
        false => put(from, to, name),
    };
    match done {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(true),
        done => done.map(|()| true),
    }
}

/// Whether the checkpoints or the journal in `state_dir` lack an entry that is kept in `copy`. Files of other folders may be
/// removed by right.
pub(super) fn lacks(state_dir: &Path, copy: &Path, mirrored: &Mirrored) -> bool {
    let lacks = |place: &Path| lacks_entries(&state_dir.join(place), &copy.join(place));
    let Ok(root) = open(state_dir) else { return true };
    let has_changed = |place: &Path, known: ChangeTime| {
        let stat = statat(&root, place, AtFlags::SYMLINK_NOFOLLOW);
        stat.map_or(true, |stat| change_of(&stat) != known)
    };
    let mut checkpoints = mirrored
        .iter()
        .filter(|(place, _)| place.starts_with(CHECKPOINTS));
    lacks(Path::new(EVENTS)) || checkpoints.any(|(place, known)| has_changed(place, *known) && lacks(place))
}

/// Whether `folder` lacks a name that the folder `kept` has.
pub(super) fn lacks_entries(folder: &Path, kept: &Path) -> bool {
    let Ok(kept) = open(kept).and_then(|kept| entries(&kept)) else {
        return false;
    };
    match open(folder).and_then(|folder| entries(&folder)) {
        Ok(existing) => kept.keys().any(|name| !existing.contains_key(name)),
        Err(_) => true,
    }
}

/// Adds the file `name` of the folder `from` to the folder `to`, which must not have that name yet: as a link, else as a copy.
fn put(from: &OwnedFd, to: &OwnedFd, name: &OsStr) -> io::Result<()> {
    match linkat(from, name, to, name, AtFlags::empty()).map_err(io::Error::from) {
        Err(error) if has_no_links(&error) => copy(from, to, name),
        linked => linked,
    }
}

/// Copies a file and its time of modification, by which [`is_equal`] recognises the copy.
fn copy(from: &OwnedFd, to: &OwnedFd, name: &OsStr) -> io::Result<()> {
    let new = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut source = open_regular_in(from, name)?;
    let mut target = File::from(retry_on_intr(|| openat(to, name, new, Mode::RUSR | Mode::WUSR))?);
    let changed = source.metadata()?.modified()?;
    io::copy(&mut source, &mut target)?;
    target.set_times(FileTimes::new().set_modified(changed))
}

/// Whether two files of one name are one file, or a file and its copy with an equal length and time.
fn is_equal(from: &OwnedFd, to: &OwnedFd, name: &OsStr) -> bool {
    #[cfg(test)]
    COMPARED.set(COMPARED.get() + 1);
    let stat = |folder: &OwnedFd| statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
    let (Ok(from), Ok(to)) = (stat(from), stat(to)) else {
        return false;
    };
    if from.st_dev == to.st_dev {
        // On one file system an equal file must be the same one: another does not grow with it.
        return from.st_ino == to.st_ino;
    }
    (from.st_size, from.st_mtime, from.st_mtime_nsec) == (to.st_size, to.st_mtime, to.st_mtime_nsec)
}

/// Makes everything durable that was written to the file system of `folder`.
fn sync(folder: &Path) -> io::Result<()> {
    sync_file_system(open_dir(folder)?)
}

/// Whether a file of this name is temporary, such as a lock of git.
fn is_short_lived(name: &OsStr) -> bool {
    let name = name.as_bytes();
    name.ends_with(b".tmp") || name.ends_with(b".lock") && !name.ends_with(b"server.lock")
}

fn open(folder: &Path) -> io::Result<OwnedFd> {
    Ok(open_dir(folder)?.into())
}

/// Opens a folder; `None` if it no longer exists or is no folder.
fn enter(parent: &OwnedFd, name: &OsStr) -> io::Result<Option<OwnedFd>> {
    match open_folder_in(parent, name) {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        opened => Ok(Some(opened?)),
    }
}

/// Returns the files and folders in a folder, without links and other kinds, which no record has.
fn entries(folder: &OwnedFd) -> io::Result<Entries> {
    let mut found = list_in(folder)?;
    found.retain(|(_, kind, _)| matches!(kind, FileKind::File | FileKind::Directory));
    let found = found.into_iter();
    Ok(found
        .map(|(name, kind, number)| (name, Entry { kind, number }))
        .collect())
}

fn change_of(stat: &Stat) -> ChangeTime {
    (
        stat.st_ctime,
        u32::try_from(stat.st_ctime_nsec).map_or(0, i64::from),
    )
}

/// Returns a folder's time of change, or [`UNSETTLED`] if it is so recent that a later change may have an equal time.
fn settled_change(stat: &Stat) -> ChangeTime {
    let change = change_of(stat);
    let age = SystemTime::now().duration_since(UNIX_EPOCH).ok().and_then(|now| {
        let changed = Duration::new(u64::try_from(change.0).ok()?, u32::try_from(change.1).ok()?);
        now.checked_sub(changed)
    });
    match age.is_some_and(|age| age > SETTLED) {
        true => change,
        false => UNSETTLED,
    }
}
