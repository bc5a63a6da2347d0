//! Counts and times of steps.

use std::time::Duration;

use hankweave_task_model::task::TaskStatus;

use crate::metrics::{Counter, Timer};

/// Statuses to which a step can lead.
const STATUSES: [TaskStatus; 7] = [
    TaskStatus::Pending,
    TaskStatus::Running,
    TaskStatus::Waiting,
    TaskStatus::Completed,
    TaskStatus::Failed,
    TaskStatus::Cancelled,
    TaskStatus::Deleted,
];

/// Counts and times of steps.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct StepMetrics {
    /// Number of steps to each status.
    to: [Counter; STATUSES.len()],
    /// Steps that were taken, from the request to the release of the lock.
    pub taken: Timer,
    /// Steps that were refused or failed.
    pub failed: Counter,
    /// Hooks, whatever their outcome.
    pub hooks: Timer,
    /// Hooks that failed, panicked or took too long.
    pub failed_hooks: Counter,
}

impl StepMetrics {
    pub(super) fn record_step(&self, to: TaskStatus, took: Duration) {
        self.to[to as usize].add(1);
        self.taken.add(took);
    }

    /// Returns the number of steps to each status.
    pub fn by_status(&self) -> impl Iterator<Item = (TaskStatus, u64)> {
        STATUSES
            .iter()
            .map(|status| (*status, self.to[*status as usize].get()))
    }
}
