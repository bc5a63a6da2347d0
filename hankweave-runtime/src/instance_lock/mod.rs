//! One server for each execution directory: a run acquires the lock when it starts and holds it until its end.
//!
//! Exclusion is a kernel lock on the state directory itself, which ends with the process, however it ends. The information
//! file `server.lock` in that directory only shows people and clients which process holds the lock. Its content never
//! admits or refuses a process (L1, L2).
//!
//! The spare record below is the copy of the state directory that [`SparedDisk`](disk::SparedDisk) keeps outside of the
//! workspace, in case an agent removes the directory.

mod foreign;
mod record;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hankweave_core::discovery::{Activity, LOCK_FILE, ServerLockRecord};
use hankweave_core::id::RunId;
use hankweave_core::time::Timestamp;

use crate::world::clock::Clock;
use crate::world::disk::{
    self, DirLock, DirLockGuard, Disk, FileKind, IoError, OpenedSpare, QuarantinedEntry,
};
use crate::world::identity::Identity;
use crate::world::ids::IdSource;

pub use record::{copied_at, last_heartbeat, live_record, read_record};

/// Name of the file that keeps the state directory out of a git repository of the user's.
const GIT_IGNORE: &str = ".gitignore";

/// Ignores every file of the directory, also this one.
const IGNORE_ALL: &[u8] = b"# written by hankweave: nothing in here belongs into a repository\n*\n";

/// The right to be the only server of an execution directory; released when dropped.
#[derive(Debug)]
pub struct InstanceLock {
    world: LockWorld,
    state_dir: PathBuf,
    /// The kernel lock; `None` when it was waived.
    guard: Option<Arc<dyn DirLockGuard>>,
    /// The former permissions of a directory that was open to others and is private now, for a notice; `None` if it was private.
    tightened: Option<u32>,
    /// Entries that were moved aside because they had the name of the directory or of one of its files.
    set_aside: Vec<QuarantinedEntry>,
    /// Last heartbeat in the information file that a killed process left, if there was one.
    left_heartbeat: Option<Timestamp>,
    /// Whether this start put the state directory back from the spare record.
    put_back: bool,
    /// Whether the spare record stays for the next start.
    needs_spare: AtomicBool,
    /// Contents of the information file. Locked while the file is written, so that a release waits for a running heartbeat.
    record: Mutex<ServerLockRecord>,
}

/// The seams that the lock needs.
#[derive(Debug, Clone)]
pub struct LockWorld {
    /// Disk of the state directory.
    pub disk: Arc<dyn Disk>,
    /// Clock for the times in the information file.
    pub clock: Arc<dyn Clock>,
    /// Gives the lock its id.
    pub ids: Arc<dyn IdSource>,
    /// Source of facts about this process.
    pub identity: Arc<dyn Identity>,
}

/// Behaviour on a file system without kernel locks (L6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exclusion {
    /// Refuse to start.
    Required,
    /// Start anyway: the user vouches that there is no second server.
    Waived,
}

/// Why the lock was not acquired, or its information file not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Another server holds the lock; nothing was changed.
    #[error("`{}` is in use by another process{}", state_dir.display(), holder(*pid, *port))]
    Held {
        /// The contested directory.
        state_dir: PathBuf,
        /// The holder's process, if its file names one.
        pid: Option<u32>,
        /// The port it listens on, if its file names one.
        port: Option<u16>,
    },
    /// The file system cannot lock directories.
    #[error("the file system of `{}` does not support locks", state_dir.display())]
    Unsupported {
        /// The directory that cannot be locked.
        state_dir: PathBuf,
    },
    /// The state directory is not a private directory of this user (X5).
    #[error("`{}` cannot hold the state: {reason}", state_dir.display())]
    NotPrivate {
        /// The refused directory.
        state_dir: PathBuf,
        /// Problem, as a sentence about the directory.
        reason: &'static str,
    },
    /// All users may write to the state directory, so its contents may come from any of them.
    #[error("`{}` cannot hold the state: everybody may write to it", state_dir.display())]
    OpenToAll {
        /// The refused directory.
        state_dir: PathBuf,
    },
    /// The information file names another lock, which only happens without a kernel lock.
    #[error("`{}` was taken over by another run", path.display())]
    TakenOver {
        /// The information file.
        path: PathBuf,
    },
    /// The disk refused a step.
    #[error(transparent)]
    Io(#[from] IoError),
}

impl InstanceLock {
    /// Takes the lock on `state_dir`, which is made when it does not exist, and writes the information file. An entry of
    /// another kind in the place of the directory or the file, such as a link, is [moved aside](Self::set_aside).
    ///
    /// # Errors
    ///
    /// Returns [`LockError`]; a refused start has changed nothing in an existing directory.
    pub fn acquire(world: LockWorld, state_dir: &Path, exclusion: Exclusion) -> Result<Self, LockError> {
        let mut set_aside: Vec<QuarantinedEntry> = make_way(&world, state_dir)?.into_iter().collect();
        // Before `ensure_ours`, which makes a missing directory: while the directory is missing, only the lock on the spare
        // record keeps other processes out.
        let put_back = open_spare(&*world.disk, state_dir)?;
        let open_to_others = ensure_ours(&world, state_dir)?;
        let guard = take_kernel_lock(&*world.disk, state_dir, exclusion)?;
        if let Some(pid) = foreign::live_holder(&world, state_dir) {
            let (state_dir, port) = (state_dir.to_owned(), None);
            return Err(LockError::Held {
                state_dir,
                pid: Some(pid),
                port,
            });
        }
        let file = state_dir.join(LOCK_FILE);
        // `disk::replace` writes through these temporary files, so no entry of another kind may have their names.
        let temporary = [&file, &state_dir.join(GIT_IGNORE)].map(|file| disk::with_suffix(file, ".tmp"));
        for path in temporary.into_iter().chain([file]) {
            let aside = disk::only(&*world.disk, &path, FileKind::File, world.clock.now());
            set_aside.extend(aside.map_err(IoError::at("move aside", &path))?);
        }
        if open_to_others.is_some() {
            let tightened = world.disk.make_dir_private(state_dir);
            tightened.map_err(IoError::at("change the permissions of", state_dir))?;
        }
        keep_out_of_git(&*world.disk, state_dir)?;
        // Before `write`, which replaces the file.
        let left_heartbeat = last_heartbeat(&*world.disk, state_dir, world.clock.now());
        let record = record::of_this_process(&world, state_dir);
        let lock = Self {
            left_heartbeat,
            world,
            state_dir: state_dir.to_owned(),
            guard,
            tightened: open_to_others,
            set_aside,
            put_back,
            needs_spare: AtomicBool::new(false),
            record: Mutex::new(record),
        };
        lock.write(&lock.locked_record())?;
        Ok(lock)
    }

    /// Writes into the information file that this process is about to suspend itself, when the machine has been up for `up`.
    /// Does nothing if the file names another lock. Waits for the disk.
    ///
    /// # Errors
    ///
    /// [`LockError::Io`] when the disk refuses.
    pub(crate) fn note_suspension(&self, up: Option<Duration>) -> Result<(), LockError> {
        let mut record = self.locked_record();
        record.set_suspended(up);
        let named = self.named_lock_id();
        match named.is_none_or(|lock_id| lock_id == record.lock_id) {
            true => self.write(&record),
            false => Ok(()),
        }
    }

    /// Notes that a suspension of this process has ended, and does not count its time as time of the activity.
    pub(crate) fn exclude_suspension(&self, suspended: Duration) {
        let mut record = self.locked_record();
        record.set_suspended(None);
        if let Some(activity) = &mut record.activity {
            activity.exclude_suspension(suspended);
        }
    }

    /// Notes the activity of the run; the next heartbeat writes it.
    pub(crate) fn set_activity(&self, activity: Option<Activity>) {
        self.locked_record().activity = activity;
    }

    /// Notes that the run was asked to stop; the next heartbeat writes it.
    pub(crate) fn set_stopping(&self) {
        self.locked_record().stopping = true;
    }

    /// Writes into the information file whether this process asks a question in its terminal. Waits for the disk.
    ///
    /// # Errors
    ///
    /// As [`heartbeat`](Self::heartbeat).
    pub(crate) fn note_question(&self, asking: bool) -> Result<(), LockError> {
        self.locked_record().asking = asking;
        self.heartbeat(None, None)
    }

    /// Writes the information file again with the current time, the address of the server and the run. Waits for the disk.
    ///
    /// # Errors
    ///
    /// [`LockError::TakenOver`] when another server wrote the file; [`LockError::Io`] when the disk refuses.
    pub fn heartbeat(&self, server: Option<SocketAddr>, run_id: Option<&RunId>) -> Result<(), LockError> {
        let mut record = self.locked_record();
        if self
            .named_lock_id()
            .is_some_and(|lock_id| lock_id != record.lock_id)
        {
            return Err(LockError::TakenOver { path: self.path() });
        }
        record.port = server.map(|server| server.port());
        record.address = server
            .map(|server| server.ip())
            .filter(|address| *address != Ipv4Addr::LOCALHOST);
        record.run_id = run_id.cloned();
        record.last_heartbeat = self.world.clock.now();
        self.write(&record)
    }

    /// Removes the information file, unless it names another lock. Waits for the disk. The kernel lock is released when this
    /// value is dropped. The drop also removes the file if this function was not called, as after a failed start.
    ///
    /// # Errors
    ///
    /// [`LockError::Io`] when the file cannot be removed.
    pub fn release(&self) -> Result<(), LockError> {
        let record = self.locked_record();
        if self
            .named_lock_id()
            .is_some_and(|lock_id| lock_id != record.lock_id)
        {
            return Ok(());
        }
        let path = self.path();
        let removed = match self.world.disk.remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.and_then(|()| self.world.disk.sync_dir(&self.state_dir)),
        };
        Ok(removed.map_err(IoError::at("remove", &path))?)
    }

    /// The kernel lock, which the store checks before each save; `None` when it was waived.
    #[must_use]
    pub fn guard(&self) -> Option<Arc<dyn DirLockGuard>> {
        self.guard.clone()
    }

    /// Keeps the spare record after the end of this lock, because the state directory is incomplete on the disk.
    pub fn keep_spare(&self) {
        self.needs_spare.store(true, Ordering::Relaxed);
    }

    /// Returns the last heartbeat in the information file that an earlier process left because it was killed.
    #[must_use]
    pub fn left_heartbeat(&self) -> Option<Timestamp> {
        self.left_heartbeat
    }

    /// Returns a notice for the user if the state directory was put back.
    #[must_use]
    pub fn put_back_notice(&self) -> Option<String> {
        let state_dir = self.state_dir.display();
        self.put_back.then(|| {
            format!("`{state_dir}` was removed while a run worked there, and has been put back; the run continues where it was")
        })
    }

    /// Returns a notice for the user if the state directory was open to others until now.
    #[must_use]
    pub fn permissions_notice(&self) -> Option<String> {
        let mode = self.tightened?;
        let state_dir = self.state_dir.display();
        Some(format!(
            "`{state_dir}` was open to other users (mode {mode:03o}); now it is yours alone (mode 700)"
        ))
    }

    /// Returns the entries that were in the place of the directory or of one of its files, and their new paths.
    #[must_use]
    pub fn set_aside(&self) -> &[QuarantinedEntry] {
        &self.set_aside
    }

    /// Returns the contents of the information file as written last.
    #[must_use]
    pub fn record(&self) -> ServerLockRecord {
        self.locked_record().clone()
    }

    fn locked_record(&self) -> MutexGuard<'_, ServerLockRecord> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the lock id in the information file; `None` if the file is missing or damaged, so that its owner is unknown.
    fn named_lock_id(&self) -> Option<String> {
        read_record(&*self.world.disk, &self.state_dir).map(|record| record.lock_id)
    }

    fn write(&self, record: &ServerLockRecord) -> Result<(), LockError> {
        let path = self.path();
        let written = disk::replace(&*self.world.disk, &path, &record.to_bytes());
        Ok(written.map_err(IoError::at("write", &path))?)
    }

    fn path(&self) -> PathBuf {
        self.state_dir.join(LOCK_FILE)
    }
}

impl Drop for InstanceLock {
    fn drop(&mut self) {
        // The kernel lock is released even if removing the file fails. A file that stays counts as one that a crash left.
        let _ = self.release();
        if let Some(spares) = self.world.disk.spares() {
            spares.close(&self.state_dir, self.needs_spare.load(Ordering::Relaxed));
        }
    }
}

/// Starts to keep the spare record; returns whether the state directory was put back from it.
fn open_spare(disk: &dyn Disk, state_dir: &Path) -> Result<bool, LockError> {
    match disk.spares().map(|spares| spares.open(state_dir)) {
        None | Some(OpenedSpare::None) => Ok(false),
        Some(OpenedSpare::Kept { put_back }) => Ok(put_back),
        Some(OpenedSpare::Held(copy)) => {
            let (pid, port) = record::read_holder(disk, &copy);
            let state_dir = state_dir.to_owned();
            Err(LockError::Held { state_dir, pid, port })
        }
    }
}

fn take_kernel_lock(
    disk: &dyn Disk,
    state_dir: &Path,
    exclusion: Exclusion,
) -> Result<Option<Arc<dyn DirLockGuard>>, LockError> {
    let path = || state_dir.to_owned();
    match disk.lock_dir(state_dir) {
        Ok(DirLock::Acquired(guard)) => Ok(Some(guard)),
        Ok(DirLock::Held) => {
            let (pid, port) = record::read_holder(disk, state_dir);
            Err(LockError::Held {
                state_dir: path(),
                pid,
                port,
            })
        }
        Ok(DirLock::Unsupported) if exclusion == Exclusion::Waived => Ok(None),
        Ok(DirLock::Unsupported) => Err(LockError::Unsupported { state_dir: path() }),
        Err(error) => Err(IoError::at("lock", &path())(error).into()),
    }
}

/// Moves aside an entry that has the name of the state directory but is no directory. The parent directory is locked
/// meanwhile, so that of several starts only one does it.
fn make_way(world: &LockWorld, state_dir: &Path) -> Result<Option<QuarantinedEntry>, LockError> {
    let disk = &*world.disk;
    let is_in_the_way = |found: disk::Metadata| found.kind != FileKind::Directory;
    if !disk.metadata(state_dir).is_ok_and(is_in_the_way) {
        return Ok(None);
    }
    let parent_lock = disk.lock_dir(disk::parent(state_dir));
    let parent_lock = parent_lock.map_err(IoError::at("lock the parent of", state_dir))?;
    if matches!(parent_lock, DirLock::Held) {
        return Err(LockError::Held {
            state_dir: state_dir.to_owned(),
            pid: None,
            port: None,
        });
    }
    let aside = disk::only(disk, state_dir, FileKind::Directory, world.clock.now());
    Ok(aside.map_err(IoError::at("move aside", state_dir))?)
}

/// Makes the state directory, or checks whether the existing one is ours. Returns the permissions of a directory that is
/// open to others.
fn ensure_ours(world: &LockWorld, state_dir: &Path) -> Result<Option<u32>, LockError> {
    let open_to_others = match world.disk.create_dir_private(state_dir) {
        Ok(()) => None,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => check_ours(world, state_dir)?,
        Err(error) => return Err(IoError::at("create", state_dir)(error).into()),
    };
    // Also for an existing directory: a start that was killed may have made it a moment ago.
    let parent = disk::parent(state_dir);
    let synced = world.disk.sync_dir(parent);
    synced.map_err(IoError::at("sync the parent of", state_dir))?;
    Ok(open_to_others)
}

/// Checks that an existing state directory is ours. Returns its permissions if it is open to others.
fn check_ours(world: &LockWorld, state_dir: &Path) -> Result<Option<u32>, LockError> {
    let metadata = world.disk.metadata(state_dir);
    let metadata = metadata.map_err(IoError::at("inspect", state_dir))?;
    let reason = if metadata.kind != FileKind::Directory {
        "it is not a directory"
    } else if metadata.owner != world.identity.user_id() {
        "it belongs to another user"
    } else if metadata.mode & 0o002 != 0 {
        let state_dir = state_dir.to_owned();
        return Err(LockError::OpenToAll { state_dir });
    } else {
        return Ok((metadata.mode & 0o077 != 0).then_some(metadata.mode));
    };
    Err(LockError::NotPrivate {
        state_dir: state_dir.to_owned(),
        reason,
    })
}

/// Makes git ignore the state directory, which lies in a project that may be a repository: it holds prompts, output of
/// agents, and tokens. An entry that a user has put there instead stays (X12).
fn keep_out_of_git(disk: &dyn Disk, state_dir: &Path) -> Result<(), IoError> {
    let file = state_dir.join(GIT_IGNORE);
    match disk.metadata(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            disk::replace(disk, &file, IGNORE_ALL).map_err(IoError::at("write", &file))
        }
        found => found.map(drop).map_err(IoError::at("inspect", &file)),
    }
}

/// Returns ` (pid 12, port 4000)`, or the part of it that is known.
fn holder(pid: Option<u32>, port: Option<u16>) -> String {
    match (pid, port) {
        (Some(pid), Some(port)) => format!(" (pid {pid}, port {port})"),
        (Some(pid), None) => format!(" (pid {pid})"),
        (None, _) => String::new(),
    }
}

#[cfg(test)]
mod tests;
