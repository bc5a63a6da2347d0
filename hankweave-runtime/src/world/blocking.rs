//! Threads for calls that wait for the disk: [`Blocking`] runs such calls, and the program builds its tokio runtime with
//! [`lasting_runtime`].

use std::future::Future;
use std::io;
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime, RuntimeFlavor};
use tokio::task::JoinHandle;

/// How blocking work is carried out.
///
/// A real run hands the work to threads, so that a slow fsync never delays a socket. A simulation does the work at once on
/// its only thread, so that the order of everything depends on the seed alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocking {
    /// On the blocking threads of the tokio runtime.
    Threads,
    /// On the calling task, before the future returns.
    Inline,
}

impl Blocking {
    /// Runs `work` and returns what it returns.
    ///
    /// # Panics
    ///
    /// Passes a panic of `work` on to the caller.
    ///
    /// # Cancel safety
    ///
    /// Work that was handed to a thread runs to its end even when this future is dropped; its result is then lost.
    pub async fn run<T: Send + 'static>(self, work: impl FnOnce() -> T + Send + 'static) -> T {
        match self {
            Self::Inline => work(),
            Self::Threads if !has_threads() => work(),
            Self::Threads => match tokio::task::spawn_blocking(work).await {
                Ok(value) => value,
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                // Only a tokio runtime that shuts down cancels the work, and then it drops this future as well.
                Err(_) => std::future::pending().await,
            },
        }
    }
}

impl Blocking {
    /// Starts a task that waits for the disk itself. It runs on a thread of its own, where that delays no other task, or,
    /// in a simulation, concurrently with the calling task.
    ///
    /// The handle must be awaited; aborting it ends only a task that has no thread of its own.
    pub fn spawn<T: Send + 'static>(self, task: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        match self {
            Self::Inline => tokio::spawn(task),
            Self::Threads if !has_threads() => tokio::spawn(task),
            Self::Threads => tokio::task::spawn_blocking(|| {
                // A runtime of its own, so that the task's timers still work while the caller's runtime shuts down.
                Builder::new_current_thread()
                    .enable_time()
                    .build()
                    .expect("a runtime without I/O needs nothing of the system")
                    .block_on(task)
            }),
        }
    }
}

/// Whether a thread for blocking work is available: tokio panics if the system refuses the first one. A multi-thread
/// runtime already has its threads, see [`lasting_runtime`].
fn has_threads() -> bool {
    Handle::current().runtime_flavor() != RuntimeFlavor::CurrentThread || probe_threads(1).is_ok()
}

/// Threads for blocking work: some are always in use (the writers of state, journal and agents' output, what is shown), the
/// others do short work.
const RESERVE: usize = 8;

/// Threads of the runtime itself.
const WORKERS: usize = 2;

/// Maximum time to wait for the start of the reserve.
const START: Duration = Duration::from_secs(10);

/// Builds the runtime of a program that runs hanks. Its threads for blocking work exist from the start and stay.
///
/// An agent may start so many processes that the system refuses new threads (a fork bomb). Then tokio would panic, or keep
/// work for a thread that never starts. To stop that agent, the runtime must need no new thread.
///
/// # Errors
///
/// Returns the error of the operating system if the threads cannot be started now.
pub fn lasting_runtime() -> io::Result<Runtime> {
    build(|| ())
}

/// Builds a lasting runtime, each of whose threads calls `started` first.
fn build(started: impl Fn() + Send + Sync + 'static) -> io::Result<Runtime> {
    // tokio panics where the system refuses a thread, so this asks the system first.
    probe_threads(RESERVE + WORKERS)?;
    let runtime = Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .thread_keep_alive(Duration::from_secs(u64::from(u32::MAX)))
        .on_thread_start(started)
        .enable_all()
        .build()?;
    start_reserve(&runtime);
    Ok(runtime)
}

/// Fails if `count` threads cannot be started at once; ends those that it started.
fn probe_threads(count: usize) -> io::Result<()> {
    let mut started = Vec::with_capacity(count);
    let refused = (0..count).find_map(|_| {
        let (end_sender, end) = channel::<()>();
        // The thread ends when the sender is dropped.
        let thread = std::thread::Builder::new().spawn(move || {
            let _ = end.recv();
        });
        match thread {
            Ok(thread) => {
                started.push((end_sender, thread));
                None
            }
            Err(error) => Some(error),
        }
    });
    for (end_sender, thread) in started {
        drop(end_sender);
        // The thread does nothing that could panic.
        let _ = thread.join();
    }
    refused.map_or(Ok(()), Err)
}

/// Makes tokio start [`RESERVE`] threads, by work that keeps each busy until all of them exist.
fn start_reserve(runtime: &Runtime) {
    let reserve = Arc::new(Reserve::default());
    for _ in 0..RESERVE {
        let reserve = Arc::clone(&reserve);
        // Nothing waits for the end of this work.
        drop(runtime.spawn_blocking(move || reserve.arrive()));
    }
    reserve.release();
}

#[derive(Debug, Default)]
struct Reserve {
    state: Mutex<ReserveState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct ReserveState {
    /// Number of threads that exist.
    count: usize,
    is_released: bool,
}

impl Reserve {
    /// Counts the calling thread, and waits for the release.
    fn arrive(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.count += 1;
        self.changed.notify_all();
        let waits = self.changed.wait_while(state, |state| !state.is_released);
        drop(waits.unwrap_or_else(PoisonError::into_inner));
    }

    /// Releases all threads once they exist, or after [`START`]: a run is possible with fewer threads.
    fn release(&self) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let arrived = self
            .changed
            .wait_timeout_while(state, START, |state| state.count < RESERVE);
        let (mut state, _) = arrived.unwrap_or_else(PoisonError::into_inner);
        state.is_released = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    // covers: F9
    #[test]
    fn a_lasting_runtime_has_its_threads_from_the_start() {
        let started = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&started);
        let runtime = build(move || {
            count.fetch_add(1, Ordering::SeqCst);
        })
        .unwrap();
        // The threads of the reserve have started; the worker threads may still be starting.
        let at_first = started.load(Ordering::SeqCst);
        drop(runtime);
        assert!((RESERVE..=RESERVE + WORKERS).contains(&at_first), "{at_first}");
    }

    #[tokio::test]
    async fn both_ways_return_what_the_work_returns() {
        for blocking in [Blocking::Threads, Blocking::Inline] {
            assert_eq!(blocking.run(|| 6 * 7).await, 42);
        }
    }

    #[tokio::test]
    async fn a_panic_reaches_the_caller() {
        let caller = tokio::spawn(async { Blocking::Threads.run(|| panic!("planned")).await });
        assert!(caller.await.unwrap_err().is_panic());
    }
}
