//! Ctrl+Z: suspends the program with everything that it has started, and continues both (S12, CLI-24).

use std::convert::Infallible;
use std::io;

use hankweave_runtime::world::process::{StoppedProcesses, has_job_control};
use rustix::process::{Pid, Signal, getpid, kill_process};
use tokio::signal::unix::{self, SignalKind, signal};

use crate::terminal::keyboard::Keyboard;
use crate::terminal::screen::{is_taken, print_stderr, set_aside, show_again};

/// Signals that suspend and continue the program.
#[derive(Debug)]
pub(crate) struct SuspendSignals {
    suspend: unix::Signal,
    continued: unix::Signal,
}

impl SuspendSignals {
    pub(crate) fn new() -> io::Result<Self> {
        let of = |kind: Signal| signal(SignalKind::from_raw(kind.as_raw()));
        Ok(Self {
            suspend: of(Signal::TSTP)?,
            continued: of(Signal::CONT)?,
        })
    }

    /// Waits until the program is asked to suspend itself (`true`), or has continued after another process had stopped it (`false`).
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn asks(&mut self) -> bool {
        tokio::select! {
            Some(()) = self.suspend.recv() => true,
            Some(()) = self.continued.recv() => false,
            else => std::future::pending().await,
        }
    }

    /// Suspends the program and what it has started; returns once it has continued.
    pub(crate) async fn suspend(&mut self) {
        self.suspend_after(StoppedProcesses::stop).await;
    }

    async fn suspend_after(&mut self, stop: impl FnOnce() -> StoppedProcesses) {
        if !has_job_control() {
            let pid = getpid();
            print_stderr(format!(
                "suspended: `kill -CONT {pid}` in another terminal continues it\n"
            ));
        }
        let stopped = stop();
        // Called on the first thread, which gets the signal itself, this returns once the program continues.
        let is_stopped = getpid() != Pid::INIT && kill_process(getpid(), Signal::STOP).is_ok();
        drop(stopped);
        // A process that may not stop itself, such as the first one of a container, just continues.
        if is_stopped {
            self.continued.recv().await;
        }
    }
}

/// Suspends the program each time that the user presses Ctrl+Z.
///
/// Before the suspension it erases what is drawn and gives the terminal back. Each time that the program continues, it sets the terminal again
/// and draws below what the shell has written meanwhile.
///
/// `signals` are those of [`SuspendSignals::new`], made before anything can be suspended: where no shell watches the process, the system drops a
/// signal for which the program does not wait yet.
pub(crate) async fn answer(signals: io::Result<SuspendSignals>, keyboard: Option<&Keyboard>) -> Infallible {
    let Ok(mut signals) = signals else {
        return std::future::pending().await;
    };
    loop {
        let is_asked = signals.asks().await;
        // The view that has the whole screen handles Ctrl+Z itself.
        if is_taken() {
            continue;
        }
        if is_asked {
            set_aside();
            keyboard.inspect(|keyboard| keyboard.lend());
            signals.suspend().await;
        }
        keyboard.inspect(|keyboard| keyboard.again());
        show_again();
    }
}

/// Suspends a worker with its runs each time that the user presses Ctrl+Z (S12). Leases are not renewed meanwhile; a worker that has lost the lease
/// of a task stops its run once it continues (TASK-52).
pub(crate) async fn answer_for_runs() -> Infallible {
    let Ok(mut signals) = SuspendSignals::new() else {
        return std::future::pending().await;
    };
    loop {
        if signals.asks().await {
            signals.suspend_after(StoppedProcesses::suspend).await;
        }
    }
}
