//! Suspends the processes that this one has started, before Ctrl+Z suspends this process itself, and lets them continue
//! with it (S12).

use std::sync::{Condvar, MutexGuard, PoisonError, RwLock, RwLockWriteGuard, TryLockError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::child::children;
use super::sweep;
use super::table::Process;
use crate::world::{suspension, system};

/// Maximum time to find and stop processes: some start others without end.
const LIMIT: Duration = Duration::from_secs(1);

/// Maximum time for children that suspend themselves: a run suspends its agents first.
const PATIENCE: Duration = Duration::from_secs(10);

/// Interval at which their state is checked.
const INTERVAL: Duration = Duration::from_millis(5);

/// Wakes threads that wait to start a process.
static CONTINUED: Condvar = Condvar::new();

/// All processes that this process has started, except those of the user: stopped until this value is dropped. Meanwhile no
/// process is started, and the time counts as suspended.
#[derive(Debug)]
#[must_use = "dropped, it lets the processes continue"]
pub struct StoppedProcesses {
    stopped: Vec<Process>,
    /// Children that were asked to suspend themselves and their own children.
    asked_children: Vec<Process>,
    /// Keeps [`uninterrupted`] work from starting.
    work_lock: Option<RwLockWriteGuard<'static, ()>>,
}

/// Locked for reading by work in which this process must not be suspended.
static UNINTERRUPTED: RwLock<()> = RwLock::new(());

/// Does work during which [`StoppedProcesses::suspend`] waits: it has a lock, for which other processes would wait in vain
/// while this process is suspended.
pub fn uninterrupted<T>(work: impl FnOnce() -> T) -> T {
    let _held = UNINTERRUPTED.read().unwrap_or_else(PoisonError::into_inner);
    work()
}

/// Waits for the end of [`uninterrupted`] work, and keeps more from starting; `None` if the work takes longer than until `end`.
fn hold_work(end: Instant) -> Option<RwLockWriteGuard<'static, ()>> {
    loop {
        match UNINTERRUPTED.try_write() {
            Ok(held) => return Some(held),
            Err(TryLockError::Poisoned(held)) => return Some(held.into_inner()),
            Err(TryLockError::WouldBlock) if Instant::now() >= end => return None,
            Err(TryLockError::WouldBlock) => sleep(INTERVAL),
        }
    }
}

impl StoppedProcesses {
    /// Stops all descendants. For a program that starts all its children with spawners and is about to suspend itself.
    pub fn stop() -> Self {
        start_suspension();
        Self {
            stopped: sweep::stop_descendants(LIMIT),
            asked_children: Vec::new(),
            work_lock: None,
        }
    }

    /// Asks the children that can to suspend themselves, and stops the others, as [`stop`](Self::stop) does. For a program
    /// whose children are runs: a run that is stopped from outside would count the time against its limits.
    pub fn suspend() -> Self {
        let children = start_suspension();
        let asked_children: Vec<Process> = sweep::processes_of(&children)
            .filter(|child| child.suspends_itself())
            .collect();
        for child in &asked_children {
            system::signal(child, Signal::TSTP);
        }
        let end = Instant::now() + PATIENCE;
        while asked_children.iter().any(Process::is_running) && Instant::now() < end {
            sleep(INTERVAL);
        }
        Self {
            work_lock: hold_work(end),
            stopped: sweep::stop_descendants(LIMIT),
            asked_children,
        }
    }
}

/// Starts a suspension, and returns the process ids of all children.
fn start_suspension() -> Vec<i32> {
    // A start holds this lock until the child is in the set, and a later start waits for the end of the suspension.
    let children = children();
    suspension::start();
    children.iter().copied().collect()
}

/// Whether a shell of this session, which is not in our group, can continue this program after Ctrl+Z.
pub fn has_job_control() -> bool {
    let own = i32::try_from(std::process::id()).ok().and_then(system::process);
    own.is_some_and(|own| system::process(own.parent).is_some_and(|parent| continues(&parent, &own)))
}

/// Whether `parent`, or a shell above it, can continue this program: it must be in our session. The numbers come from the
/// table, because the typed system calls refuse the 0 of a session or group from outside our container.
fn continues(parent: &Process, own: &Process) -> bool {
    // A parent in our own group is a script; it has a shell above it unless it leads the session.
    parent.session == own.session && (parent.group != own.group || parent.group != parent.session)
}

/// Stops the run `pid` if its marker begins with `marker`, and if the run or its parent is suspended. The run continues, so
/// that it can stop in order. Returns whether `pid` was such a run. For a worker that has got the task of a suspended
/// worker, whose run still holds the directory.
pub fn stop_suspended(pid: u32, marker: &str) -> bool {
    let process = i32::try_from(pid).ok().and_then(system::process);
    let is_left = |process: &Process| system::process(process.parent).is_some_and(|parent| parent.is_stopped);
    let is_meant =
        |process: &Process| process.marker_starts_with(marker) && (!process.is_running() || is_left(process));
    let Some(process) = process.filter(is_meant) else {
        return false;
    };
    system::signal(&process, Signal::TERM);
    system::signal(&process, Signal::CONT);
    true
}

impl Drop for StoppedProcesses {
    fn drop(&mut self) {
        suspension::end();
        self.work_lock = None;
        sweep::continue_all(&self.stopped);
        sweep::continue_all(&self.asked_children);
        // A thread that is about to wait for `CONTINUED` holds this lock until it waits; before that it would miss the call.
        drop(children());
        CONTINUED.notify_all();
    }
}

/// Waits while this process is being suspended: a child that is started then would not be stopped.
pub(super) fn until_continued<T>(children: MutexGuard<'_, T>) -> MutexGuard<'_, T> {
    CONTINUED
        .wait_while(children, |_| suspension::is_open())
        .unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    // covers: S12
    #[test]
    fn work_with_a_lock_ends_before_the_process_is_suspended() {
        let (started_sender, started) = channel();
        let (end_sender, end) = channel::<()>();
        let worker = std::thread::spawn(move || {
            uninterrupted(|| {
                started_sender.send(()).unwrap();
                end.recv().unwrap();
            });
        });
        started.recv().unwrap();
        assert!(hold_work(Instant::now()).is_none());
        end_sender.send(()).unwrap();
        worker.join().unwrap();
        assert!(hold_work(Instant::now()).is_some());
    }
}
