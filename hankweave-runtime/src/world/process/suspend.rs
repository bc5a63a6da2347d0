//! Suspends what this process has started, as Ctrl+Z asks, and lets it continue with it (S12).

use std::sync::Condvar;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use super::child::children;
use super::sweep::{self, Process};
use crate::world::suspension;

/// How long a look for processes may take: some start others without end.
const LIMIT: Duration = Duration::from_secs(1);

/// Wakes those who wait to start a process.
static CONTINUED: Condvar = Condvar::new();

/// Processes that are stopped until this is dropped: everything that this process has started, but for what belongs to the user. Nothing is started
/// meanwhile, and the time counts as suspended.
#[derive(Debug)]
#[must_use = "dropped, it lets the processes continue"]
pub struct StoppedProcesses(Vec<Process>);

impl StoppedProcesses {
    /// Stops them. For a program that starts all its children with spawners and is about to stop itself.
    pub fn stop() -> Self {
        {
            // A start that has begun notes its child before this continues.
            let _starting = children();
            suspension::begin();
        }
        Self(sweep::stop_descendants(LIMIT))
    }
}

impl Drop for StoppedProcesses {
    fn drop(&mut self) {
        suspension::end();
        sweep::continue_all(&self.0);
        // Whoever is about to wait holds this, and would miss the call.
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
