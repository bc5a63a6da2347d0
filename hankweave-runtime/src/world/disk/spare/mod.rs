//! The spare record: a second copy of the state directory, outside of the workspace, for as long as a process works there (P11).
//!
//! Agents run commands such as `git clean -ffdx` and `rm -rf .hankweave`. So each file that is written through a
//! [`SparedDisk`] has a second name in a folder of the user's: a hard link where that is possible, else a copy. Files that
//! are written in another way, such as checkpoints, are [mirrored](Spare::follow) later. Missing files are put back from
//! the spare record: at the next write to a file that has lost a name, when a file is not found, when the lock is checked,
//! and when the runner asks for it ([`Spare::restore_missing`]). While a removal continues, new writes go to the spare
//! record alone.
//!
//! The folder of a spare record is named by inode and time of birth of the workspace, which a move keeps and a copy does
//! not. The folder is locked while a process works, so no other process starts while the state directory is missing. It is
//! removed when that process releases the state directory. After a crash it stays for the next start.
//!
//! In this module "the record" is the content of the state directory, and a file is "kept" if the spare record has it too.

mod file;
mod place;
mod spared_disk;
mod tree;

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockWriteGuard};

use hankweave_core::document::MAX_STATE_BYTES;

use super::place::state_dir_of;
use super::{DirLock, DirLockGuard, Disk, FileKind, RealDisk, parent};

pub use self::place::records_folder;
pub use self::spared_disk::SparedDisk;
use self::tree::Mirrored;

/// The files that make up the state: they exist together or not at all.
const STATE: [&str; 3] = ["state.json", "state.json.bak", LOG];
const LOG: &str = "state.log";

/// Longest file that is compared with another one, in bytes.
const MAX_COMPARED: u64 = MAX_STATE_BYTES as u64;

/// The repository of checkpoints, which is not written through the disk.
const CHECKPOINTS: &str = "checkpoints";
const EVENTS: &str = "events";
const RUNS: &str = "runs";

/// Folder of our own log. Its writer holds a lock that putting back may need for its messages, so its files are not
/// [watched](Spare::is_watched).
const LOGS: &str = "logs";

/// Folder of agents' temporary files, and the only folder in it that is kept twice.
const TEMPORARY: &str = "tmp";
const SESSIONS: &str = "tmp/scripted-sessions";

/// Whether the entry at `place`, relative to the state directory, is kept twice.
fn is_kept(place: &Path) -> bool {
    !place.starts_with(TEMPORARY) || place == Path::new(TEMPORARY) || place.starts_with(SESSIONS)
}

/// Whether `place`, relative to the state directory, is a folder whose files are all written through the disk, or inside one.
fn is_written_through(place: &Path) -> bool {
    [EVENTS, RUNS, LOGS]
        .iter()
        .any(|folder| place.starts_with(folder))
}

fn is_state(name: &OsStr) -> bool {
    STATE.iter().any(|state| *state == name)
}

fn exists(path: &Path) -> bool {
    RealDisk.metadata(path).is_ok()
}

fn has_state(state_dir: &Path) -> bool {
    STATE.iter().any(|name| exists(&state_dir.join(name)))
}

/// The spare records of the state directories that this process holds.
#[derive(Debug, Default)]
pub struct Spares {
    /// The folder of all spare records of the user; `None` if there is no place for one.
    records: Option<PathBuf>,
    /// The open spare records, by their state directories.
    open: RwLock<HashMap<PathBuf, Arc<Spare>>>,
}

/// The answer to [`Spares::open`].
#[derive(Debug, PartialEq, Eq)]
pub enum OpenedSpare {
    /// There is no place for a spare record: nothing can be put back.
    None,
    /// Another process works in this workspace; the path is its copy of the state directory.
    Held(PathBuf),
    /// The spare record is kept from now on.
    Kept {
        /// Whether a killed process had left the state directory without its record, which was put back.
        put_back: bool,
    },
}

/// The spare record of one state directory.
pub struct Spare {
    state_dir: PathBuf,
    /// The folder of this spare record, named after the workspace.
    folder: PathBuf,
    /// The copy of the state directory, in `folder` under the state directory's name.
    copy: PathBuf,
    /// Keeps other processes out until it is dropped.
    _lock: Arc<dyn DirLockGuard>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// The lock on the state directory, once it is taken.
    guard: Option<Arc<dyn DirLockGuard>>,
    /// The folders that were mirrored; empty before the first time.
    mirrored: Mirrored,
    /// Whether a file could not be kept twice, so that nothing is put back any more.
    given_up: bool,
    /// Whether a removal continued while files were put back, so that some may be missing again.
    is_pending: bool,
    /// Whether files were put back since the runner asked last.
    has_put_back: bool,
    /// Lines for our own log, written after the work: the log is itself a kept file. An error is a warning.
    messages: Vec<Result<String, String>>,
}

impl Spares {
    /// Returns spare records that will be in the folder `records`.
    #[must_use]
    pub fn new(records: Option<PathBuf>) -> Self {
        Self {
            records,
            open: RwLock::default(),
        }
    }

    /// Starts to keep the spare record of `state_dir`, whose parent must exist. Without a place for one only the protection is lost.
    ///
    /// If an unclean end has left a spare record, the entries that the state directory lacks as a whole are put back first.
    pub fn open(&self, state_dir: &Path) -> OpenedSpare {
        let Some(records) = &self.records else {
            return OpenedSpare::None;
        };
        // An earlier attempt of this process to lock the directory may have left a spare record in the table.
        self.table_mut()
            .retain(|known, spare| known != state_dir || spare.with(|inner| inner.guard.is_some()));
        let opened = self.try_to_open(records, state_dir).unwrap_or_else(|error| {
            tracing::warn!(%error, records = %records.display(), "no spare record is kept");
            OpenedSpare::None
        });
        // After opening: if this project was moved, opening has noted its new path, so that its spare record is not pruned.
        place::prune(records);
        opened
    }

    fn try_to_open(&self, records: &Path, state_dir: &Path) -> io::Result<OpenedSpare> {
        let Some(place) = place::claim(records, parent(state_dir))? else {
            return Ok(OpenedSpare::None);
        };
        let copy = place.folder.join(state_dir.file_name().unwrap_or_default());
        let Some(lock) = place.lock else {
            return Ok(OpenedSpare::Held(copy));
        };
        let put_back = place.is_certain && put_back_at_start(&copy, state_dir)?;
        RealDisk.make_private_dirs(&copy)?;
        let spare = Spare {
            state_dir: state_dir.to_owned(),
            folder: place.folder,
            copy,
            _lock: lock,
            inner: Mutex::default(),
        };
        self.table_mut().insert(state_dir.to_owned(), Arc::new(spare));
        Ok(OpenedSpare::Kept { put_back })
    }

    /// Puts back what a killed process has left in the spare record of `state_dir`, an absolute path, for a command that only
    /// reads the state directory. Returns whether anything was missing; the spare record stays for the next start.
    pub fn restore(&self, state_dir: &Path) -> bool {
        let Some(records) = &self.records else {
            return false;
        };
        let restored = || -> io::Result<bool> {
            let Some(folder) = place::existing(records, parent(state_dir)) else {
                return Ok(false);
            };
            let copy = folder.join(state_dir.file_name().unwrap_or_default());
            // Checked without the lock first: a start at this moment must not find it taken for nothing.
            if lacking_at_start(&copy, state_dir)?.is_empty() {
                return Ok(false);
            }
            match place::claim(records, parent(state_dir))?.map(|place| place.lock) {
                Some(Some(_lock)) => put_back_at_start(&copy, state_dir),
                Some(None) | None => Ok(false),
            }
        };
        restored().unwrap_or_else(|error| {
            tracing::warn!(%error, records = %records.display(), "a spare record cannot be put back");
            false
        })
    }

    /// The spare record that keeps `path`, if `path` is an open state directory or inside one.
    #[must_use]
    pub fn of(&self, path: &Path) -> Option<Arc<Spare>> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        if open.is_empty() {
            return None;
        }
        let found = open.get(path);
        found.or_else(|| open.get(state_dir_of(path)?)).cloned()
    }

    /// Stops keeping the spare record of `state_dir`, after putting back missing files. Removes the spare record, unless it is
    /// still needed or files are still missing.
    pub fn close(&self, state_dir: &Path, is_needed: bool) {
        let Some(spare) = self.table_mut().remove(state_dir) else {
            return;
        };
        let is_whole = spare.is_whole();
        spare.log_messages();
        if is_whole && !is_needed {
            place::remove(&spare.folder);
            drop(spare);
            self.records.as_deref().map(place::tidy).unwrap_or_default();
        }
    }

    fn table_mut(&self) -> RwLockWriteGuard<'_, HashMap<PathBuf, Arc<Spare>>> {
        self.open.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the names of the entries that the state directory lacks, because a killed process could not put them back.
///
/// Empty if no important one is among them: a start makes the others again.
fn lacking_at_start(copy: &Path, state_dir: &Path) -> io::Result<Vec<OsString>> {
    if !has_state(copy) {
        return Ok(Vec::new());
    }
    let has_state = has_state(state_dir);
    let lacks = |name: &OsStr| match is_state(name) {
        true => !has_state,
        false => !exists(&state_dir.join(name)),
    };
    let mut lacking = RealDisk.list_dir(copy)?;
    lacking.retain(|name| lacks(name));
    let is_important =
        |name: &OsStr| is_state(name) || [CHECKPOINTS, EVENTS, RUNS].iter().any(|one| *one == name);
    if !lacking.iter().any(|name| is_important(name)) {
        lacking.clear();
    }
    Ok(lacking)
}

/// Puts back what [`lacking_at_start`] returns; returns whether anything was missing.
fn put_back_at_start(copy: &Path, state_dir: &Path) -> io::Result<bool> {
    let lacking = lacking_at_start(copy, state_dir)?;
    if lacking.is_empty() {
        return Ok(false);
    }
    RealDisk.make_private_dirs(state_dir)?;
    tree::put_back(copy, state_dir, |name| lacking.iter().any(|one| one == name))
}

impl Spare {
    /// Makes the spare record equal to the state directory: at a start, before files are open.
    pub fn start(&self) {
        self.with(|inner| {
            inner.mirrored.clear();
            self.mirror(inner);
        });
    }

    /// Keeps the files that were written in another way than through the disk: checkpoints, archives, sessions. Only folders
    /// that have changed are read.
    pub fn follow(&self) {
        self.with(|inner| {
            // Mirroring an incomplete record would remove the missing files from the spare record.
            if !self.is_incomplete(inner) {
                self.mirror(inner);
            }
        });
    }

    /// Makes the spare record equal to the state directory, unless it was given up.
    fn mirror(&self, inner: &mut Inner) {
        if !inner.given_up
            && let Err(error) = tree::mirror(&self.state_dir, &self.copy, &mut inner.mirrored)
        {
            self.give_up(inner, &error);
        }
    }

    /// Puts back missing files, after work in which agents could have removed them.
    pub fn restore_missing(&self) {
        self.with(|inner| {
            if self.is_incomplete(inner) || tree::lacks(&self.state_dir, &self.copy, &inner.mirrored) {
                self.put_back(inner);
            }
        });
        self.log_messages();
    }

    /// Returns whether files were put back since the last call.
    pub fn take_put_back(&self) -> bool {
        self.with(|inner| std::mem::take(&mut inner.has_put_back))
    }

    /// Removes from the spare record a folder that was removed from the state directory as a whole.
    pub fn forget_folder(&self, path: &Path) {
        if let Some(second) = self.spare_path(path).filter(|second| *second != self.copy) {
            place::remove(&second);
        }
    }

    /// Whether the state directory itself, or one of its direct entries, is missing, or a removal may continue.
    fn is_incomplete(&self, inner: &Inner) -> bool {
        let exists = inner.guard.as_ref().is_none_or(|guard| guard.still_guards());
        inner.is_pending || !exists || tree::lacks_entries(&self.state_dir, &self.copy)
    }

    /// Whether everything is in the state directory, after putting back missing files; true also after giving up.
    fn is_whole(&self) -> bool {
        self.with(|inner| {
            inner.given_up || !self.is_incomplete(inner) || (self.put_back(inner) && !inner.is_pending)
        })
    }

    /// Whether we hold the lock on the directory at the path of the state directory, or could put back a missing directory.
    fn still_guards(&self) -> bool {
        self.with(|inner| match &inner.guard {
            Some(guard) => guard.still_guards() || self.put_back(inner),
            None => false,
        })
    }

    /// Puts the record back if the lack of `path` shows that files were removed. Returns whether the spare record may be used
    /// in the place of the record.
    fn recover(&self, path: &Path) -> bool {
        self.with(|inner| {
            // Before the lock is taken, nothing of ours can be missing. Before the first mirror, the spare record may be
            // the older one, because its process was killed after it had changed the state directory.
            let Some(guard) = inner.guard.as_ref().filter(|_| !inner.mirrored.is_empty()) else {
                return false;
            };
            let is_removed =
                |path: &Path| self.spare_path(path).is_some_and(|second| exists(&second)) && !exists(path);
            let is_lost = !guard.still_guards() || is_removed(path) || is_removed(parent(path));
            !inner.given_up && (!is_lost || self.put_back(inner))
        })
    }

    /// Whether only the spare record has the file `path`, also after an attempt to put it back.
    fn is_only_in_spare(&self, path: &Path) -> bool {
        !exists(path)
            && self.recover(path)
            && !exists(path)
            && self.spare_path(path).is_some_and(|second| exists(&second))
    }

    /// Puts back everything that the state directory lacks; a missing directory is made and locked again. Returns whether the
    /// record is ours and safe: in the state directory or, while a removal continues, in the spare record.
    fn put_back(&self, inner: &mut Inner) -> bool {
        if inner.given_up {
            return false;
        }
        let back = self.reclaim(inner).and_then(|is_ours| match is_ours {
            true => tree::put_back(&self.copy, &self.state_dir, |_| true).map(Some),
            false => Ok(None),
        });
        // As while a removal continues: a folder that was just made is missing again, or an agent has made one of its name.
        let is_transient = |error: &io::Error| {
            matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists
            )
        };
        let state_dir = self.state_dir.display();
        inner.is_pending = back.as_ref().is_err_and(is_transient);
        match back {
            Ok(None) => return false,
            Ok(Some(false)) => {}
            Ok(Some(true)) => {
                inner.has_put_back = true;
                inner
                    .messages
                    .push(Ok(format!("{state_dir} was removed and has been put back")));
            }
            Err(_) if inner.is_pending => inner.has_put_back = true,
            Err(error) => {
                inner
                    .messages
                    .push(Err(format!("{state_dir} cannot be put back: {error}")));
                return false;
            }
        }
        true
    }

    /// Makes sure that the state directory exists and is locked by us; `false` if the workspace was moved, or if an entry of
    /// others has the name of the state directory.
    fn reclaim(&self, inner: &mut Inner) -> io::Result<bool> {
        if inner.guard.as_ref().is_some_and(|guard| guard.still_guards()) {
            return Ok(true);
        }
        if !place::is_of(&self.folder, parent(&self.state_dir)) {
            return Ok(false);
        }
        match RealDisk.metadata(&self.state_dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                RealDisk.create_dir_private(&self.state_dir)?;
            }
            Err(error) => return Err(error),
            Ok(found) => {
                let owner = RealDisk.metadata(&self.copy)?.owner;
                if found.kind != FileKind::Directory || found.owner != owner || self.has_foreign_state() {
                    return Ok(false);
                }
                // An agent has made this directory: for its temporary folder inside, or by taking it out of a stash of git.
                RealDisk.make_dir_private(&self.state_dir)?;
            }
        }
        if inner.guard.is_none() {
            return Ok(true);
        }
        match RealDisk.lock_dir(&self.state_dir)? {
            DirLock::Acquired(guard) => inner.guard = Some(guard),
            DirLock::Held | DirLock::Unsupported => return Ok(false),
        }
        Ok(true)
    }

    /// Whether the state directory has a state that is not an earlier one of ours. Git puts an earlier one back from a stash.
    fn has_foreign_state(&self) -> bool {
        let log = |folder: &Path| RealDisk.read(&folder.join(LOG), MAX_COMPARED);
        match (log(&self.state_dir), log(&self.copy)) {
            (Ok(found), Ok(ours)) => {
                // The zeros after the last line are only reserved room.
                let end = found
                    .iter()
                    .rposition(|byte| *byte != 0)
                    .map_or(0, |last| last + 1);
                !ours.starts_with(&found[..end])
            }
            (Err(error), _) if error.kind() == io::ErrorKind::NotFound => STATE.iter().any(|name| {
                let [found, ours] = [&self.state_dir, &self.copy]
                    .map(|folder| RealDisk.read(&folder.join(name), MAX_COMPARED));
                found.is_ok_and(|found| !ours.is_ok_and(|ours| ours == found))
            }),
            (Ok(_) | Err(_), _) => true,
        }
    }

    /// Keeps the file at `path`, which is new or has replaced another one. Returns `false` if the file no longer exists.
    fn keep(&self, inner: &mut Inner, path: &Path) -> bool {
        let Some(second) = self.spare_path(path).filter(|_| !inner.given_up) else {
            return true;
        };
        match tree::keep(path, &second) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && !exists(path) => return false,
            Err(error) => self.give_up(inner, &error),
            Ok(()) => {}
        }
        true
    }

    /// Makes the folder `path` in the spare record, before the first file is made in it. By then an agent may have removed the folder.
    fn make_folder(&self, inner: &mut Inner, path: &Path) {
        if let Some(second) = self.spare_path(path).filter(|_| !inner.given_up)
            && let Err(error) = RealDisk.make_private_dirs(&second)
        {
            self.give_up(inner, &error);
        }
    }

    /// Removes the file `path` from the spare record, because it is removed from the record; returns whether it was kept. A
    /// file that cannot be removed would be put back once, and no more.
    fn forget(&self, inner: &Inner, path: &Path) -> bool {
        let second = self.spare_path(path).filter(|_| !inner.given_up);
        second.is_some_and(|second| RealDisk.remove_file(&second).is_ok())
    }

    /// Keeps an entry that was moved from `from` to `to`. The spare record moves its own entry, so this works even if `to` no
    /// longer exists; a folder is mirrored later. Returns `false` if a file no longer exists and cannot be kept.
    fn keep_moved(&self, inner: &mut Inner, from: &Path, to: &Path) -> bool {
        if let Some(second) = self.spare_path(from) {
            if RealDisk
                .metadata(&second)
                .is_ok_and(|found| found.kind == FileKind::Directory)
            {
                self.forget_folder(from);
                return true;
            }
            if self
                .spare_path(to)
                .is_some_and(|to| RealDisk.rename(&second, &to).is_ok())
            {
                return true;
            }
            self.forget(inner, from);
        }
        self.keep(inner, to)
    }

    /// Returns the path in the spare record of a file or folder; `None` if it is not kept twice.
    fn spare_path(&self, path: &Path) -> Option<PathBuf> {
        let place = path.strip_prefix(&self.state_dir).ok()?;
        match place.as_os_str().is_empty() {
            true => Some(self.copy.clone()),
            false => is_kept(place).then(|| self.copy.join(place)),
        }
    }

    /// Whether each write to the file `path` checks that the file still has both names.
    fn is_watched(&self, path: &Path) -> bool {
        !path.starts_with(self.state_dir.join(LOGS))
    }

    /// Stops keeping the record twice and removes the spare record, because an incomplete copy is of no use.
    fn give_up(&self, inner: &mut Inner, error: &io::Error) {
        if !std::mem::replace(&mut inner.given_up, true) {
            let folder = self.folder.display();
            inner
                .messages
                .push(Err(format!("the spare record in {folder} is given up: {error}")));
            place::remove(&self.folder);
        }
    }

    /// Writes the waiting messages to our own log.
    fn log_messages(&self) {
        for line in self.with(|inner| std::mem::take(&mut inner.messages)) {
            match line {
                // An event reports it to people; a warning would appear in the middle of their screen as well.
                Ok(done) => tracing::info!("{done}"),
                Err(failed) => tracing::warn!("{failed}"),
            }
        }
    }

    /// Runs `work` while no other thread uses this spare record.
    fn with<T>(&self, work: impl FnOnce(&mut Inner) -> T) -> T {
        work(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for Spare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spare")
            .field("state_dir", &self.state_dir)
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::atomic::AtomicBool;
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::world::disk::replace;

    /// A state directory that is kept twice, locked, with a disk for it.
    struct Kept {
        folder: tempfile::TempDir,
        disk: SparedDisk,
        _lock: Arc<dyn DirLockGuard>,
    }

    impl Kept {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let state_dir = folder.path().join("project/.hankweave");
            fs::create_dir_all(&state_dir).unwrap();
            let disk = SparedDisk::new(Spares::new(Some(folder.path().join("home/records"))));
            let opened = disk.spares().unwrap().open(&state_dir);
            assert_eq!(opened, OpenedSpare::Kept { put_back: false });
            let DirLock::Acquired(lock) = disk.lock_dir(&state_dir).unwrap() else {
                panic!("a new folder is not locked");
            };
            disk.spares().unwrap().of(&state_dir).unwrap().start();
            Self {
                folder,
                disk,
                _lock: lock,
            }
        }

        fn state_dir(&self) -> PathBuf {
            self.folder.path().join("project/.hankweave")
        }
    }

    /// Ends a thread also where its test fails.
    struct EndOnDrop<'e>(&'e AtomicBool);

    impl Drop for EndOnDrop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Release);
        }
    }

    /// No write waits for the end of a removal, and none is lost by it.
    // covers: P11
    #[test]
    fn what_is_written_while_the_record_is_removed_again_and_again_is_all_there() {
        const LINES: usize = 20;
        let kept = Kept::new();
        let state_dir = kept.state_dir();
        let mut log = kept.disk.open_append(&state_dir.join(LOG)).unwrap();
        let has_ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !has_ended.load(Ordering::Acquire) {
                    let _ = fs::remove_dir_all(&state_dir);
                }
            });
            let _end = EndOnDrop(&has_ended);
            for number in 0..LINES {
                log.append(format!("{number}\n").as_bytes()).unwrap();
                let agent = state_dir.join(format!("runs/{number}/agent.log"));
                kept.disk.make_private_dirs(parent(&agent)).unwrap();
                let mut agent = kept.disk.create_append(&agent).unwrap();
                agent.append(b"said").unwrap();
                replace(
                    &kept.disk,
                    &state_dir.join("state.json"),
                    number.to_string().as_bytes(),
                )
                .unwrap();
            }
        });
        let spare = kept.disk.spares().unwrap().of(&state_dir).unwrap();
        // A part that was removed last is noticed by the next write or start; the spare record has all of it.
        let _ = fs::remove_dir_all(&state_dir);
        spare.restore_missing();
        let lines: String = (0..LINES).map(|number| format!("{number}\n")).collect();
        assert_eq!(fs::read_to_string(state_dir.join(LOG)).unwrap(), lines);
        assert_eq!(
            fs::read_to_string(state_dir.join("state.json")).unwrap(),
            (LINES - 1).to_string()
        );
        for number in 0..LINES {
            let agent = state_dir.join(format!("runs/{number}/agent.log"));
            assert_eq!(fs::read_to_string(agent).unwrap(), "said");
        }
        assert!(spare.take_put_back());
    }

    /// While others have the files under another name, the record goes its own way.
    // covers: P11
    #[test]
    fn what_is_put_back_shares_no_file_with_a_record_that_was_moved() {
        let kept = Kept::new();
        let (state_dir, moved) = (kept.state_dir(), kept.folder.path().join("moved"));
        let mut log = kept.disk.open_append(&state_dir.join(LOG)).unwrap();
        log.append(b"one\n").unwrap();
        fs::rename(&state_dir, &moved).unwrap();
        // Both names of the file are still there.
        log.append(b"two\n").unwrap();
        kept.disk
            .spares()
            .unwrap()
            .of(&state_dir)
            .unwrap()
            .restore_missing();
        log.append(b"three\n").unwrap();
        assert_eq!(fs::read_to_string(moved.join(LOG)).unwrap(), "one\ntwo\n");
        assert_eq!(
            fs::read_to_string(state_dir.join(LOG)).unwrap(),
            "one\ntwo\nthree\n"
        );
        fs::remove_dir_all(&state_dir).unwrap();
        log.append(b"four\n").unwrap();
        assert_eq!(
            fs::read_to_string(state_dir.join(LOG)).unwrap(),
            "one\ntwo\nthree\nfour\n"
        );
    }

    // covers: P11
    #[test]
    fn only_folders_that_have_changed_are_mirrored_and_what_was_removed_by_right_stays_away() {
        let kept = Kept::new();
        let state_dir = kept.state_dir();
        let objects = state_dir.join("checkpoints/objects");
        fs::create_dir_all(&objects).unwrap();
        fs::write(objects.join("one"), "1").unwrap();
        let spare = kept.disk.spares().unwrap().of(&state_dir).unwrap();
        spare.follow();
        fs::write(objects.join("two"), "2").unwrap();
        fs::remove_file(objects.join("one")).unwrap();
        spare.follow();
        fs::remove_dir_all(state_dir.join("checkpoints")).unwrap();
        spare.restore_missing();
        assert!(objects.join("two").exists() && !objects.join("one").exists());
        fs::remove_dir_all(&objects).unwrap();
        spare.restore_missing();
        assert!(objects.join("two").exists(), "also of a part");
    }

    /// A mirror of a folder that has changed costs its list, however many files of it are kept already.
    // covers: P11
    #[test]
    fn files_that_are_kept_already_are_not_looked_at_again() {
        let kept = Kept::new();
        let sessions = kept.state_dir().join(SESSIONS);
        fs::create_dir_all(&sessions).unwrap();
        for number in 0..100 {
            fs::write(sessions.join(number.to_string()), "1").unwrap();
        }
        let spare = kept.disk.spares().unwrap().of(&kept.state_dir()).unwrap();
        spare.follow();
        fs::write(sessions.join("new"), "1").unwrap();
        tree::COMPARED.set(0);
        spare.follow();
        assert_eq!(tree::COMPARED.get(), 0);
        // A file that others have put in the place of one is another file.
        fs::write(sessions.join("other"), "2").unwrap();
        fs::rename(sessions.join("other"), sessions.join("7")).unwrap();
        spare.follow();
        assert_eq!(tree::COMPARED.get(), 1);
        let second = |name: &str| fs::read_to_string(spare.copy.join(SESSIONS).join(name));
        assert_eq!(
            (second("7").unwrap(), second("new").unwrap()),
            ("2".into(), "1".into())
        );
    }

    /// A process that is killed has changed the state directory, and not yet the spare record.
    // covers: P11
    #[test]
    fn an_older_file_of_a_killed_process_replaces_no_newer_one_at_the_next_start() {
        let folder = tempfile::tempdir().unwrap();
        let state_dir = folder.path().join("project/.hankweave");
        fs::create_dir_all(&state_dir).unwrap();
        let records = folder.path().join("home/records");
        let (name, temporary) = (state_dir.join("server.lock"), state_dir.join("server.lock.tmp"));
        let killed = SparedDisk::new(Spares::new(Some(records.clone())));
        killed.spares().unwrap().open(&state_dir);
        killed.create_new(&name, b"older").unwrap();
        killed.create_new(&temporary, b"newer").unwrap();
        fs::rename(&temporary, &name).unwrap();
        drop(killed);
        let next = SparedDisk::new(Spares::new(Some(records)));
        next.spares().unwrap().open(&state_dir);
        let _lock = next.lock_dir(&state_dir).unwrap();
        assert!(next.read(&temporary, 9).is_err());
        assert_eq!(next.read(&name, 9).unwrap(), b"newer");
        next.spares().unwrap().of(&state_dir).unwrap().start();
        assert_eq!(fs::read(&name).unwrap(), b"newer");
    }

    /// A workspace that was moved is not made again.
    // covers: P11, D7
    #[test]
    fn nothing_is_put_back_without_the_workspace() {
        let kept = Kept::new();
        let project = kept.folder.path().join("project");
        let spare = kept.disk.spares().unwrap().of(&kept.state_dir()).unwrap();
        fs::rename(&project, kept.folder.path().join("elsewhere")).unwrap();
        assert!(!spare.still_guards());
        fs::create_dir(&project).unwrap();
        assert!(!spare.still_guards());
        assert!(!kept.state_dir().exists());
    }
}
