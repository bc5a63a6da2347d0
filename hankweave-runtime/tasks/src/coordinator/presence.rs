//! Presence of workers (TASK-128).
//!
//! A worker holds a shared lock on its own name for as long as it works. So every registry stores the presence durably, the presence of a killed
//! worker ends with its lease, and expired presences are removed with other expired locks. The scope of the lock's holder contains the worker's terms, as
//! JSON.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hankweave_core::time::Timestamp;
use hankweave_task_model::lock::LockMode;
use hankweave_task_model::registry::FilesLocation;
use hankweave_task_model::{Holder, TaskError};
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use super::{Acquire, Coordinator, HeldLock, Release, Renew};

/// Prefix of the names of presence locks.
const RESOURCE: &str = "worker:";

/// Prefix of the owners of a worker's locks.
const OWNER: &str = "lifecycle:";

/// Treatment of orphans by a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OrphanAction {
    /// It requeues them.
    Requeue,
    /// It fails them.
    Fail,
    /// It leaves them alone.
    Leave,
}

/// Terms under which a worker works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkerTerms {
    /// Number of tasks that it runs concurrently.
    pub slots: u64,
    /// Length of its leases, in milliseconds.
    pub lease_ms: u64,
    /// Time for which an orphan stays unchanged before the worker treats it, in milliseconds.
    pub orphan_after_ms: u64,
    /// Treatment of orphans after that time.
    pub orphans: OrphanAction,
}

/// Present worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkerPresence {
    /// Name of the worker.
    pub name: String,
    /// Time at which it started, or reached the registry again.
    pub since: Timestamp,
    /// Time of the last renewal of its presence.
    pub seen_at: Timestamp,
    /// Whether it is late to renew its presence or the lease of a task, as if it had been killed.
    pub is_late: bool,
    /// Number of tasks that it holds.
    pub tasks: u64,
    /// Folder of its tasks; `None` for a worker of an older version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<FilesLocation>,
    /// Terms of the worker.
    #[serde(flatten)]
    pub terms: WorkerTerms,
}

impl WorkerPresence {
    /// Whether the worker cannot take another task.
    #[must_use]
    pub const fn is_busy(&self) -> bool {
        self.tasks >= self.terms.slots
    }
}

/// Scope of the holder of a presence lock, stored as JSON.
#[derive(Serialize, Deserialize)]
struct Scope {
    /// Unique id: several workers may have one name.
    id: String,
    /// Folder of the worker's tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    location: Option<FilesLocation>,
    #[serde(flatten)]
    terms: WorkerTerms,
}

/// Returns the scope in the holder of a presence lock; `None` for any other lock.
fn scope_in(resource: &str, holder: &Holder) -> Option<Scope> {
    resource.strip_prefix(RESOURCE)?;
    serde_json::from_str(&holder.scope).ok()
}

/// Returns the terms in a presence lock; `None` for any other lock.
pub(crate) fn terms_of(lock: &HeldLock) -> Option<WorkerTerms> {
    terms_in(&lock.resource, &lock.held.holder)
}

/// Returns the terms in the holder of a presence lock; `None` for any other lock.
pub(crate) fn terms_in(resource: &str, holder: &Holder) -> Option<WorkerTerms> {
    Some(scope_in(resource, holder)?.terms)
}

/// Returns the workers that are present at `now`, by name.
pub(crate) fn present(held: &[HeldLock], now: Timestamp) -> Vec<WorkerPresence> {
    let living = held.iter().filter(|lock| lock.lives(now));
    let worker = |lock: &HeldLock| {
        let Scope { terms, location, .. } = scope_in(&lock.resource, &lock.held.holder)?;
        let holds = |other: &&HeldLock| {
            other.held.holder.owner == lock.held.holder.owner
                && other.resource.starts_with("task:")
                && other.lives(now)
        };
        let lease = i64::try_from(terms.lease_ms).unwrap_or(i64::MAX);
        let end = lock.held.expires_at?;
        // Leases are renewed after each third of their length, so the last third is reached only if renewals were missed.
        let third = Duration::from_millis(terms.lease_ms) / 3;
        let is_overdue = |end: Timestamp| end.since(now) < third;
        let task_ends = held
            .iter()
            .filter(holds)
            .filter_map(|other| other.held.expires_at);
        Some(WorkerPresence {
            name: lock.resource.strip_prefix(RESOURCE)?.to_owned(),
            since: lock.held.acquired_at,
            seen_at: Timestamp::from_millis(end.as_millis().saturating_sub(lease)),
            is_late: std::iter::once(end).chain(task_ends).any(is_overdue),
            tasks: held.iter().filter(holds).count() as u64,
            location,
            terms,
        })
    };
    living.filter_map(worker).collect()
}

/// Longest pause before another attempt, while the registry does not answer.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Presence of a worker of this process.
#[derive(Debug)]
pub struct Presence {
    coordinator: Arc<dyn Coordinator>,
    resource: String,
    holder: Holder,
    lease: Duration,
}

impl Presence {
    /// Creates the presence of worker `name`, whose tasks are in this folder. `id` is unique among all workers.
    #[must_use]
    pub fn new(
        coordinator: Arc<dyn Coordinator>,
        name: &str,
        id: String,
        terms: WorkerTerms,
        location: Option<FilesLocation>,
    ) -> Self {
        let scope = Scope { id, location, terms };
        // Numbers and texts are always JSON.
        let scope = serde_json::to_string(&scope).unwrap_or_default();
        Self {
            coordinator,
            resource: format!("{RESOURCE}{name}"),
            holder: Holder::new(format!("{OWNER}{name}"), scope),
            lease: Duration::from_millis(terms.lease_ms),
        }
    }

    /// Acquires the presence and renews it until the future is dropped. While the registry does not answer, attempts continue; no work waits for them.
    pub async fn keep(&self) -> Infallible {
        let mut token = None;
        let usual_wait = self.lease / 3;
        loop {
            let mut wait = usual_wait;
            let result = match token {
                Some(token) => self.renew(token).await.map(|()| token),
                None => self.acquire().await,
            };
            token = match result {
                Ok(token) => Some(token),
                // The presence has expired, as after a suspension of the worker.
                Err(TaskError::LockTimeout { .. }) if token.is_some() => {
                    token = None;
                    continue;
                }
                Err(error) => {
                    tracing::debug!(%error, "the registry was not told that this worker is there");
                    wait = usual_wait.min(LONGEST_PAUSE);
                    token
                }
            };
            sleep(wait).await;
        }
    }

    async fn acquire(&self) -> Result<u64, TaskError> {
        let acquire = Acquire {
            resource: self.resource.clone(),
            holder: self.holder.clone(),
            mode: LockMode::Collaborative,
            lease: Some(self.lease),
            in_order: false,
            task: None,
        };
        let acquired = self.coordinator.acquire(acquire).await?;
        Ok(acquired.held.token)
    }

    async fn renew(&self, token: u64) -> Result<(), TaskError> {
        let renew = Renew {
            resource: self.resource.clone(),
            token,
            lease: self.lease,
        };
        self.coordinator.renew(renew).await.map(drop)
    }

    /// Ends the presence. If the registry does not answer, the presence ends with its lease.
    pub async fn end(self) {
        let release = Release {
            resource: self.resource,
            holder: self.holder,
            written: None,
        };
        if let Err(error) = self.coordinator.release(release).await {
            tracing::debug!(%error, "the registry was not told that this worker ends");
        }
    }
}

#[cfg(test)]
mod tests {
    use hankweave_task_model::LockGrant;
    use serde_json::json;

    use super::*;

    /// A worker with an overdue task is late, even if its presence was renewed since.
    // covers: TASK-128
    #[test]
    fn a_worker_is_late_with_the_lease_of_its_task() {
        let scope =
            json!({"id": "1", "slots": 1, "leaseMs": 30_000, "orphanAfterMs": 0, "orphans": "requeue"});
        let lock = |resource: &str, end| HeldLock {
            resource: resource.to_owned(),
            held: LockGrant {
                holder: Holder {
                    owner: "lifecycle:w1".into(),
                    scope: scope.to_string().into(),
                },
                mode: LockMode::Collaborative,
                token: 1,
                count: 1,
                acquired_at: Timestamp::UNIX_EPOCH,
                expires_at: Some(Timestamp::from_millis(end)),
            },
        };
        let late = |presence, task| {
            let held = [lock("worker:w1", presence), lock("task:t", task)];
            let found = present(&held, Timestamp::from_millis(10_000));
            (found[0].tasks, found[0].is_late)
        };
        assert_eq!(late(35_000, 35_000), (1, false));
        assert_eq!(late(35_000, 14_000), (1, true));
        assert_eq!(late(14_000, 35_000), (1, true));
    }
}
