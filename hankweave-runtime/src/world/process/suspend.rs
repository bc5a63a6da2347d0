//! Suspends what this process has started, as Ctrl+Z asks, and lets it continue with it (S12).

use std::sync::{Condvar, MutexGuard, PoisonError, RwLock, RwLockWriteGuard, TryLockError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::child::children;
use super::sweep;
use super::table::Process;
use crate::world::{suspension, system};

/// Maximum time of a scan for processes: some start others without end.
const LIMIT: Duration = Duration::from_secs(1);

/// How long children may take that suspend themselves: a run stops its agents first.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often their state is checked.
const INTERVAL: Duration = Duration::from_millis(5);

/// Wakes threads that wait to start a process.
static CONTINUED: Condvar = Condvar::new();

/// Processes that are stopped until this is dropped: everything that this process has started, but for what belongs to the user. Nothing is started
/// meanwhile, and the time counts as suspended.
#[derive(Debug)]
#[must_use = "dropped, it lets the processes continue"]
pub struct StoppedProcesses {
    stopped: Vec<Process>,
    /// Children that have suspended themselves, with what they have started.
    asked: Vec<Process>,
    /// Keeps work that others wait for from starting.
    held: Option<RwLockWriteGuard<'static, ()>>,
}

/// Held by work in which this process must not be suspended.
static UNINTERRUPTED: RwLock<()> = RwLock::new(());

/// Does work in which this process is not suspended by [`StoppedProcesses::suspend`]: it has a lock for which other processes would wait in vain.
pub fn uninterrupted<T>(work: impl FnOnce() -> T) -> T {
    let _held = UNINTERRUPTED.read().unwrap_or_else(PoisonError::into_inner);
    work()
}

/// Waits for the end of such work, and keeps more of it from starting; `None` if it takes too long.
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
    /// Stops them. For a program that starts all its children with spawners and is about to stop itself.
    pub fn stop() -> Self {
        start_suspension();
        Self {
            stopped: sweep::stop_descendants(LIMIT),
            asked: Vec::new(),
            held: None,
        }
    }

    /// Lets children suspend themselves if they can, and stops the others, as [`stop`](Self::stop) does. For a program
    /// whose children are runs: a run that is stopped from outside would count the time against its limits.
    pub fn suspend() -> Self {
        let children = start_suspension();
        let asked: Vec<Process> = sweep::processes_of(&children)
            .filter(|child| child.suspends_itself())
            .collect();
        for child in &asked {
            system::signal(child, Signal::TSTP);
        }
        let end = Instant::now() + PATIENCE;
        while asked.iter().any(Process::works) && Instant::now() < end {
            sleep(INTERVAL);
        }
        Self {
            held: hold_work(end),
            stopped: sweep::stop_descendants(LIMIT),
            asked,
        }
    }
}

/// Starts a suspension, and returns all child processes.
fn start_suspension() -> Vec<i32> {
    // A child that is being started is noted before this line continues, so none is missing.
    let children = children();
    suspension::start();
    children.iter().copied().collect()
}

/// Whether a shell of this session can continue this program: one that is not in its group.
pub fn has_job_control() -> bool {
    let own = i32::try_from(std::process::id()).ok().and_then(system::process);
    own.is_some_and(|own| system::process(own.parent).is_some_and(|parent| continues(&parent, &own)))
}

/// Sessions and groups that began outside our container have the number 0, which the typed system calls refuse.
fn continues(parent: &Process, own: &Process) -> bool {
    // A script in our group that does not lead the session has a shell above it.
    parent.session == own.session && (parent.group != own.group || parent.group != parent.session)
}

/// Ends a run in order whose marker begins with `marker`, if it or the process that started it is suspended: the run
/// continues in order to stop. Returns whether it was such a run. For a worker that has the task now and finds the run of
/// a suspended worker in its place.
pub fn stop_suspended(pid: u32, marker: &str) -> bool {
    let process = i32::try_from(pid).ok().and_then(system::process);
    let is_left = |process: &Process| system::process(process.parent).is_some_and(|parent| parent.is_stopped);
    let is_meant = |process: &Process| process.has_marker(marker) && (!process.works() || is_left(process));
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
        self.held = None;
        sweep::continue_all(&self.stopped);
        sweep::continue_all(&self.asked);
        // A thread that is about to wait holds this lock, and would miss the call.
        drop(children());
        CONTINUED.notify_all();
    }
}

/// Waits while this process is being suspended: what is started then would work alone.
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
