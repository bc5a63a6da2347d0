//! Where calls run that wait for the disk.

use std::future::Future;

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

    #[tokio::test]
    async fn a_panic_reaches_the_caller() {
        let caller = tokio::spawn(async { Blocking::Threads.run(|| panic!("planned")).await });
        assert!(caller.await.unwrap_err().is_panic());
    }
}
