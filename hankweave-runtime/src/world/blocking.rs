//! Where calls run that wait for the disk.

use std::future::Future;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

/// How blocking work is carried out.
///
/// The runtime hands it to threads, so that a slow fsync never delays a socket. A simulation runs it at once on its
/// only thread, so that the order of everything depends on the seed alone.
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
            Self::Threads => match tokio::task::spawn_blocking(work).await {
                Ok(value) => value,
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                // Only a tokio runtime that is going away cancels the work, and then it drops this future as well.
                Err(_) => std::future::pending().await,
            },
        }
    }
}

impl Blocking {
    /// Lets other threads go on until `done` says so, or for `limit`. In a simulation nobody else goes on meanwhile.
    pub fn linger(self, limit: Duration, mut done: impl FnMut() -> bool) {
        if self == Self::Inline {
            return;
        }
        let end = Instant::now() + limit;
        while !done() && Instant::now() < end {
            std::thread::yield_now();
        }
    }

    /// Lets a thread go first that waits for this processor. For work that nobody waits for: a scheduler may leave the one behind the other for
    /// longer than a sync takes.
    pub fn give_way(self) {
        if self == Self::Threads {
            std::thread::yield_now();
        }
    }

    /// Starts a task that waits for the disk itself: on a thread of its own, where that delays nobody else, or, in a
    /// simulation, beside the calling task.
    ///
    /// The handle must be awaited; aborting it ends only a task that is beside its caller.
    pub fn spawn<T: Send + 'static>(self, task: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        match self {
            Self::Inline => tokio::spawn(task),
            Self::Threads => tokio::task::spawn_blocking(|| {
                // Of its own, so that the task's timers still work while the runtime of the caller goes away.
                tokio::runtime::Builder::new_current_thread()
                    .enable_time()
                    .build()
                    .expect("a runtime without I/O needs nothing of the system")
                    .block_on(task)
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn both_ways_return_what_the_work_returns() {
        for blocking in [Blocking::Threads, Blocking::Inline] {
            assert_eq!(blocking.run(|| 6 * 7).await, 42);
        }
    }

    #[test]
    fn lingering_ends_when_it_is_done_or_at_its_limit() {
        let mut asked = 0;
        Blocking::Threads.linger(Duration::from_secs(60), || {
            asked += 1;
            asked == 3
        });
        assert_eq!(asked, 3);
        Blocking::Threads.linger(Duration::from_millis(1), || false);
        Blocking::Inline.linger(Duration::MAX, || false);
    }

    #[tokio::test]
    async fn a_panic_reaches_the_caller() {
        let caller = tokio::spawn(async { Blocking::Threads.run(|| panic!("planned")).await });
        assert!(caller.await.unwrap_err().is_panic());
    }
}
