//! The spare record: a second copy of the state directory, outside of the workspace, for as long as a process works there (P11).
//!
//! Agents run commands such as `git clean -ffdx` and `rm -rf .hankweave`. So each file that is written through a [`SparedDisk`] has a second name in a
//! folder of the user's, a hard link where that is possible and a copy where it is not, and what is written in another way is
//! [followed](Spare::follow). When the state directory or a part of it is gone, it is put back from there: before the next write to a file that has lost
//! its name, when something is not found, when the lock is checked, and when somebody [looks](Spare::look).
//!
//! The folder is called after the workspace, by what no other directory has: its number and its birth. A move keeps both, a copy has others. It is
//! locked while a process works, so nobody begins anew while the state directory is gone, and is removed when that process gives the directory back.
//! After a crash it stays for the next start.

mod file;
mod place;
mod spared_disk;
mod tree;

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use super::place::state_dir_of;
use super::{DirLock, DirLockGuard, Disk, FileKind, RealDisk, parent, remove_if_present};

pub use self::place::records_folder;
pub use self::spared_disk::SparedDisk;
use self::tree::{Followed, Means, Tree};

/// The files that make up the state: together they are there or gone.
const STATE: [&str; 3] = ["state.json", "state.json.bak", LOG];
const LOG: &str = "state.log";

/// How often something is put back while somebody else removes it.
const MOST_TRIES: usize = 4_096;

/// A longer log is compared with none.
const MAX_LOG_BYTES: u64 = 256 << 20;

/// Folder of agents' temporary files; only the sessions in it are kept twice.
const TEMPORARY: &str = "tmp";
const SESSIONS: &str = "scripted-sessions";

/// The repository of checkpoints, which git's own formats are written into.
const CHECKPOINTS: &str = "checkpoints";

const EVENTS: &str = "events";
const RUNS: &str = "runs";

/// Folders whose files are written through the disk, and so need no walk.
const WRITTEN_THROUGH: [&str; 3] = [EVENTS, RUNS, LOGS];

/// Our own log, which is written while others hold what a look would need.
const LOGS: &str = "logs";

/// The spare records of the state directories that this process holds.
#[derive(Debug, Default)]
pub struct Spares {
    /// The folder of all of them; `None` where the user has none.
    records: Option<PathBuf>,
    open: RwLock<HashMap<PathBuf, Arc<Spare>>>,
}

/// The answer to [`Spares::open`].
#[derive(Debug)]
pub enum OpenedSpare {
    /// There is no place for one: nothing can be put back.
    None,
    /// Another process works with this workspace; its copy of the state directory.
    Held(PathBuf),
    /// It is kept from now on; with the number of files that were put back because a killed process could not do it.
    Kept(usize),
}

/// The spare record of one state directory.
pub struct Spare {
    state_dir: PathBuf,
    /// The folder called after the workspace.
    folder: PathBuf,
    /// The copy of the state directory in it, of the same name.
    copy: PathBuf,
    /// Keeps others out while it is not dropped.
    _lock: Arc<dyn DirLockGuard>,
    tree: Tree,
    /// Something could not be kept twice, so nothing is put back any more.
    given_up: AtomicBool,
    inner: Mutex<Inner>,
    /// Lines for our own log, later: the log is one of the files, and a writer of it holds it.
    unsaid: Mutex<Vec<Result<String, String>>>,
}

#[derive(Debug, Default)]
struct Inner {
    /// The lock on the state directory, once it is taken.
    guard: Option<Arc<dyn DirLockGuard>>,
    followed: Followed,
    /// Files that were put back and of which nobody has been told.
    put_back: Option<usize>,
}

impl Spares {
    /// Keeps them in the folder `records`.
    #[must_use]
    pub fn new(records: Option<PathBuf>) -> Self {
        Self {
            records,
            open: RwLock::default(),
        }
    }

    /// Begins to keep the spare record of `state_dir`, whose parent must exist. A place that cannot be had costs nothing but the protection.
    ///
    /// What an unclean end has left is put back first, as far as the state directory lacks it as a whole.
    pub fn open(&self, state_dir: &Path) -> OpenedSpare {
        let Some(records) = &self.records else {
            return OpenedSpare::None;
        };
        self.forget_dead(state_dir);
        let opened = || -> io::Result<OpenedSpare> {
            let Some(place) = place::claim(records, parent(state_dir))? else {
                return Ok(OpenedSpare::None);
            };
            let copy = place.folder.join(state_dir.file_name().unwrap_or_default());
            let Some(lock) = place.lock else {
                return Ok(OpenedSpare::Held(copy));
            };
            let spare = Spare::new(state_dir, place.folder, copy, lock);
            let found = match place.is_certain {
                true => spare.put_back_at_start()?,
                false => 0,
            };
            RealDisk.make_private_dirs(&spare.copy)?;
            self.table_mut().insert(state_dir.to_owned(), Arc::new(spare));
            Ok(OpenedSpare::Kept(found))
        };
        let opened = opened().unwrap_or_else(|error| {
            tracing::warn!(%error, records = %records.display(), "no spare record is kept");
            OpenedSpare::None
        });
        // Only now: a project that was moved has its own by now, whatever it was called before.
        place::prune(records);
        opened
    }

    /// The spare record that keeps `path`, if it is a state directory or beneath one.
    #[must_use]
    pub fn of(&self, path: &Path) -> Option<Arc<Spare>> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        if open.is_empty() {
            return None;
        }
        let found = open.get(path);
        found.or_else(|| open.get(state_dir_of(path)?)).cloned()
    }

    /// Stops keeping the spare record of `state_dir`, after a last look, and removes it; one that is still needed stays.
    pub fn close(&self, state_dir: &Path, is_needed: bool) {
        let Some(spare) = self.table_mut().remove(state_dir) else {
            return;
        };
        let is_whole = spare.is_whole();
        spare.tell();
        if is_whole && !is_needed {
            place::remove(&spare.folder);
            drop(spare);
            self.records.as_deref().map(place::tidy).unwrap_or_default();
        }
    }

    /// Forgets one that an earlier attempt to take the directory has left in this process.
    fn forget_dead(&self, state_dir: &Path) {
        let mut open = self.table_mut();
        if open
            .get(state_dir)
            .is_some_and(|spare| spare.inner().guard.is_none())
        {
            open.remove(state_dir);
        }
    }

    fn table_mut(&self) -> std::sync::RwLockWriteGuard<'_, HashMap<PathBuf, Arc<Spare>>> {
        self.open.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Spare {
    fn new(state_dir: &Path, folder: PathBuf, copy: PathBuf, lock: Arc<dyn DirLockGuard>) -> Self {
        Self {
            state_dir: state_dir.to_owned(),
            folder,
            copy,
            _lock: lock,
            tree: Tree::default(),
            given_up: AtomicBool::new(false),
            inner: Mutex::default(),
            unsaid: Mutex::default(),
        }
    }

    /// Makes it the same as the state directory: at a start, before files are open.
    pub fn begin(&self) {
        let done = self.with(|inner| self.tree.mirror(&self.state_dir, &self.copy, &mut inner.followed));
        self.or_give_up(done);
    }

    /// Keeps what has been written since in another way than through the disk: checkpoints, archives, sessions. Only folders that have changed are read.
    pub fn follow(&self) {
        if self.has_given_up() {
            return;
        }
        let done = self.with(|inner| match self.is_missed(inner) {
            // Nothing is to be learnt from what is left.
            true => Ok(()),
            false => self.tree.follow(&self.state_dir, &self.copy, &mut inner.followed),
        });
        self.or_give_up(done);
    }

    /// Looks whether something is gone, after others could have removed it, and puts it back.
    pub fn look(&self) {
        if self.has_given_up() {
            return;
        }
        self.with(|inner| {
            if self.is_missed(inner) || self.tree.lacks(&self.state_dir, &self.copy, &inner.followed) {
                self.put_back(inner);
            }
        });
        self.tell();
    }

    /// How many files were put back since this was asked last; `None` when nothing was gone.
    pub fn take_put_back(&self) -> Option<usize> {
        self.inner().put_back.take()
    }

    /// Removes what was removed as a whole folder.
    pub fn forget_folder(&self, path: &Path) {
        if path.starts_with(&self.state_dir) && path != self.state_dir {
            place::remove(&self.copy_of(path));
        }
    }

    /// Whether the state directory itself, or one of its entries, is gone.
    fn is_missed(&self, inner: &Inner) -> bool {
        let is_there = inner.guard.as_ref().is_none_or(|guard| guard.still_guards());
        !is_there || tree::lacks_entries(&self.state_dir, &self.copy)
    }

    /// Whether everything is in the state directory, once what is gone has been put back.
    fn is_whole(&self) -> bool {
        self.has_given_up() || self.with(|inner| !self.is_missed(inner) || self.put_back(inner))
    }

    /// Whether the lock is held on what has the name of the state directory, which is put back when it is gone.
    fn still_guards(&self) -> bool {
        self.with(|inner| match &inner.guard {
            Some(guard) if guard.still_guards() => true,
            Some(_) => self.put_back(inner),
            None => false,
        })
    }

    /// Puts back what is gone if the lack of `path` shows that something is; returns whether it did.
    fn mend(&self, path: &Path) -> bool {
        self.with(|inner| {
            // Before the lock is taken nothing of ours can be gone.
            let Some(guard) = &inner.guard else { return false };
            let kept = |path: &Path| RealDisk.metadata(&self.copy_of(path)).is_ok();
            let is_gone = |path: &Path| kept(path) && RealDisk.metadata(path).is_err();
            let is_lost = !guard.still_guards() || is_gone(path) || is_gone(parent(path));
            is_lost && self.put_back(inner)
        })
    }

    /// Puts back all that the state directory lacks, which is made and locked anew if need be. Returns whether nothing is missing then.
    fn put_back(&self, inner: &mut Inner) -> bool {
        if self.has_given_up() {
            return false;
        }
        match self.try_to_put_back(inner) {
            Ok(Some(0)) => true,
            Ok(Some(files)) => {
                let state_dir = self.state_dir.display();
                self.unsaid().push(Ok(format!(
                    "{state_dir} was removed and has been put back: {files} files"
                )));
                *inner.put_back.get_or_insert_default() += files;
                true
            }
            Ok(None) => false,
            Err(error) => {
                let state_dir = self.state_dir.display();
                self.unsaid()
                    .push(Err(format!("{state_dir} cannot be put back: {error}")));
                false
            }
        }
    }

    /// The number of files that were put back; `None` when the place is not ours any more.
    fn try_to_put_back(&self, inner: &mut Inner) -> io::Result<Option<usize>> {
        let mut files = 0;
        for _ in 1..MOST_TRIES {
            let back = self.reclaim(inner).and_then(|is_ours| match is_ours {
                true => self.fill(&mut files).map(|()| Some(files)),
                false => Ok(None),
            });
            match back {
                // Whoever removes it, or makes something in it, has not finished.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists
                    ) =>
                {
                    // On a busy machine all tries would pass before the other process gets its turn.
                    std::thread::yield_now();
                }
                back => return back,
            }
        }
        Err(io::ErrorKind::NotFound.into())
    }

    /// Does `work` alone.
    fn with<T>(&self, work: impl FnOnce(&mut Inner) -> T) -> T {
        work(&mut self.inner())
    }

    /// Tells our own log what has happened.
    fn tell(&self) {
        let unsaid = std::mem::take(&mut *self.unsaid());
        for said in unsaid {
            match said {
                // An event says it to people; a warning would stand in the middle of their screen as well.
                Ok(done) => tracing::info!("{done}"),
                Err(failed) => tracing::warn!("{failed}"),
            }
        }
    }

    fn unsaid(&self) -> MutexGuard<'_, Vec<Result<String, String>>> {
        self.unsaid.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes sure that the state directory is there and locked by us; `false` when it was moved away, or something of others has its name.
    fn reclaim(&self, inner: &mut Inner) -> io::Result<bool> {
        let is_removed = inner.guard.as_ref().is_none_or(|guard| guard.is_removed());
        match RealDisk.metadata(&self.state_dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && is_removed => {
                RealDisk.create_dir_private(&self.state_dir)?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
            Ok(_) if inner.guard.as_ref().is_some_and(|guard| guard.still_guards()) => return Ok(true),
            Ok(found) => {
                let owner = RealDisk.metadata(&self.copy)?.owner;
                let is_anothers =
                    found.kind != FileKind::Directory || found.owner != owner || self.has_others_state();
                if !is_removed || is_anothers {
                    return Ok(false);
                }
                // An agent has made it: on the way to its temporary folder, or out of a stash.
                RealDisk.make_dir_private(&self.state_dir)?;
            }
        }
        match (&inner.guard, RealDisk.lock_dir(&self.state_dir)?) {
            (Some(_), DirLock::Acquired(guard)) => {
                inner.guard = Some(guard);
                Ok(true)
            }
            (Some(_), DirLock::Held | DirLock::Unsupported) => Ok(false),
            (None, _) => Ok(true),
        }
    }

    /// Puts back all files that the state directory lacks, durably, and counts them.
    fn fill(&self, files: &mut usize) -> io::Result<()> {
        self.tree.fill(&self.copy, &self.state_dir, files)?;
        if *files > 0 {
            tree::sync(&self.state_dir)?;
            RealDisk.sync_dir(parent(&self.state_dir))?;
        }
        Ok(())
    }

    /// Puts back the entries that a killed process could not: those that the state directory lacks altogether.
    fn put_back_at_start(&self) -> io::Result<usize> {
        let kept = match RealDisk.list_dir(&self.copy) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            kept => kept?,
        };
        let is_state = |name: &OsStr| STATE.iter().any(|state| *state == name);
        let has_state = self.has_state();
        if !kept.iter().any(|name| is_state(name)) || (!has_state && self.is_elsewhere()) {
            return Ok(0);
        }
        let lacks = |name: &OsStr| match is_state(name) {
            true => !has_state,
            false => RealDisk.metadata(&self.state_dir.join(name)).is_err(),
        };
        let lacking: Vec<_> = kept.into_iter().filter(|name| lacks(name)).collect();
        // Small things that a start makes anew show nothing.
        let matters =
            |name: &OsString| is_state(name) || [CHECKPOINTS, EVENTS, RUNS].iter().any(|one| *one == name);
        if !lacking.iter().any(matters) {
            return Ok(0);
        }
        RealDisk.make_private_dirs(&self.state_dir)?;
        let mut files = 0;
        for name in lacking {
            self.tree
                .fill_entry(&self.copy, &self.state_dir, &name, &mut files)?;
        }
        tree::sync(&self.state_dir)?;
        Ok(files)
    }

    fn has_state(&self) -> bool {
        STATE
            .iter()
            .any(|name| RealDisk.metadata(&self.state_dir.join(name)).is_ok())
    }

    /// Whether the state there is not an earlier one of ours, as git puts back from a stash.
    fn has_others_state(&self) -> bool {
        let log = |folder: &Path| RealDisk.read(&folder.join(LOG), MAX_LOG_BYTES);
        match (log(&self.state_dir), log(&self.copy)) {
            (Ok(found), Ok(ours)) => {
                let end = found
                    .iter()
                    .rposition(|byte| *byte != 0)
                    .map_or(0, |last| last + 1);
                !ours.starts_with(&found[..end])
            }
            (Err(error), _) if error.kind() == io::ErrorKind::NotFound => self.has_state(),
            (Ok(_) | Err(_), _) => true,
        }
    }

    /// Whether the state has another name on the disk: then somebody has moved the state directory, and has it.
    fn is_elsewhere(&self) -> bool {
        let log = self.copy.join(LOG);
        // Opening for appending would make one.
        let is_there = RealDisk.metadata(&log).is_ok();
        is_there && RealDisk.open_append(&log).is_ok_and(|log| log.links() > Some(1))
    }

    /// Keeps the file at `path`, which is new or another one than before; `false` when it is gone already.
    fn keep(&self, path: &Path) -> bool {
        if !self.is_kept(path) || self.has_given_up() {
            return true;
        }
        match self.tree.place(path, &self.copy_of(path)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && RealDisk.metadata(path).is_err() => {
                false
            }
            kept => {
                self.or_give_up(kept);
                true
            }
        }
    }

    /// Removes what was removed at `path`.
    fn forget(&self, path: &Path) {
        if self.is_kept(path) && !self.has_given_up() {
            // What stays too long would be put back once, and no more.
            let _ = remove_if_present(&RealDisk, &self.copy_of(path));
        }
    }

    /// Keeps what was moved to `to`, also when it is gone from there already; a folder is followed later.
    fn moved(&self, from: &Path, to: &Path) {
        let copy = self.copy_of(from);
        match RealDisk.metadata(&copy) {
            Ok(found) if found.kind == FileKind::Directory => self.forget_folder(from),
            Ok(_) if self.is_kept(to) && RealDisk.rename(&copy, &self.copy_of(to)).is_ok() => {}
            Ok(_) | Err(_) => {
                self.forget(from);
                self.keep(to);
            }
        }
    }

    /// Whether a file of this name is kept twice.
    fn is_kept(&self, path: &Path) -> bool {
        let beneath = path.strip_prefix(&self.state_dir).unwrap_or(path);
        !beneath.starts_with(TEMPORARY)
    }

    /// Whether each write to the file looks whether it still has its name.
    fn is_watched(&self, path: &Path) -> bool {
        let beneath = path.strip_prefix(&self.state_dir).unwrap_or(path);
        self.is_kept(path) && !beneath.starts_with(LOGS)
    }

    fn copy_of(&self, path: &Path) -> PathBuf {
        match path.strip_prefix(&self.state_dir) {
            Ok(beneath) if beneath.as_os_str().is_empty() => self.copy.clone(),
            Ok(beneath) => self.copy.join(beneath),
            Err(_) => self.copy.clone(),
        }
    }

    fn copies(&self) -> bool {
        matches!(self.tree.means(), Some(Means::Copy))
    }

    fn has_given_up(&self) -> bool {
        self.given_up.load(Ordering::Acquire)
    }

    fn or_give_up(&self, done: io::Result<()>) {
        if let Err(error) = done
            && !self.given_up.swap(true, Ordering::AcqRel)
        {
            let folder = self.folder.display();
            self.unsaid()
                .push(Err(format!("the spare record in {folder} is given up: {error}")));
            place::remove(&self.folder);
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
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
