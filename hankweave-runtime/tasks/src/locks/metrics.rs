//! Metrics of locks.

use std::collections::BTreeMap;
use std::time::Duration;

use hankweave_task_model::TaskError;
use serde::Serialize;

use super::Locks;
use crate::metrics::{Counter, Timer};

/// Counts of one manager.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct LockMetrics {
    /// Locks that were granted.
    pub granted: Counter,
    /// Locks that expired before they were released.
    pub expired: Counter,
    /// Requests that conflicted with a holder.
    pub conflicts: Counter,
    /// Pauses before another attempt.
    pub waits: Counter,
    /// Attempts after such a pause.
    pub retries: Counter,
    /// Renewals of a lease.
    pub renewals: Counter,
    /// Time for which released locks were held.
    pub held: Timer,
    /// Duration of requests, granted or not.
    pub waited: Timer,
}

/// Counters and the present locks, under names that other programs use as well.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LockSummary {
    /// Locks that were granted.
    pub total_locks: u64,
    /// Locks that are held now, by all holders.
    pub active_locks: u64,
    /// Locks that expired before they were released.
    pub expired_locks: u64,
    /// Requests that conflicted with a holder.
    pub conflicts_detected: u64,
    /// Average time for which released locks were held, in milliseconds.
    pub average_hold_time: f64,
    /// Number of locks that each owner holds now.
    pub locks_by_owner: BTreeMap<String, u64>,
    /// Lock that has been held longest.
    pub oldest_lock: Option<OldestLock>,
    /// Pauses before another attempt.
    pub waits: u64,
    /// Attempts after such a pause.
    pub retries: u64,
    /// Renewals of a lease.
    pub renewals: u64,
}

/// Lock that has been held longest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct OldestLock {
    /// Locked resource.
    pub resource: String,
    /// Time since the grant, in milliseconds.
    pub age: u64,
}

impl Locks {
    /// Returns this manager's counts, and all currently held locks (TASK-34).
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::LockBackendUnavailable`].
    pub async fn summary(&self) -> Result<LockSummary, TaskError> {
        let now = self.0.coordinator.now().await?;
        let mut living = self.0.coordinator.held().await?;
        living.retain(|lock| lock.lives(now));
        let mut locks_by_owner = BTreeMap::new();
        for lock in &living {
            *locks_by_owner
                .entry((*lock.held.holder.owner).to_owned())
                .or_default() += 1;
        }
        let oldest = living.iter().min_by_key(|lock| lock.held.acquired_at);
        let age = |since| u64::try_from(Duration::as_millis(&now.since(since))).unwrap_or(u64::MAX);
        let metrics = self.metrics();
        Ok(LockSummary {
            total_locks: metrics.granted.get(),
            active_locks: living.len() as u64,
            expired_locks: metrics.expired.get(),
            conflicts_detected: metrics.conflicts.get(),
            average_hold_time: metrics.held.read().average(),
            oldest_lock: oldest.map(|lock| OldestLock {
                resource: lock.resource.clone(),
                age: age(lock.held.acquired_at),
            }),
            locks_by_owner,
            waits: metrics.waits.get(),
            retries: metrics.retries.get(),
            renewals: metrics.renewals.get(),
        })
    }
}
