//! Requests to a coordinator, and its answers.

use std::collections::BTreeSet;
use std::time::Duration;

use hankweave_core::id::TaskId;
use hankweave_core::time::Timestamp;
use hankweave_task_model::lock::LockMode;
use hankweave_task_model::registry::{NewTask, TaskPatch, TaskRow};
use hankweave_task_model::task::TaskStatus;
use hankweave_task_model::{Holder, LockDemand, LockGrant};
use serde::Serialize;

/// Exclusive hold on a task, with its lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExclusiveHold {
    /// Holder.
    pub holder: Holder,
    /// Length of the lease; `None` for no end, which only a coordinator inside one process allows.
    pub lease: Option<Duration>,
}

impl ExclusiveHold {
    pub(crate) fn demand(&self) -> LockDemand<'_> {
        LockDemand {
            holder: &self.holder,
            mode: LockMode::Exclusive,
            lease: self.lease,
        }
    }
}

/// Request to create a task.
#[derive(Debug, Clone, PartialEq)]
pub struct Create {
    /// The task.
    pub task: NewTask,
    /// Hold of the creator, so that no worker claims the task before its files exist.
    pub hold: Option<ExclusiveHold>,
}

/// Task, and the lock on it if one was requested.
#[derive(Debug, Clone, PartialEq)]
pub struct Claimed {
    /// Task at the time of the grant.
    pub row: TaskRow,
    /// The lock; `None` if none was requested.
    pub held: Option<LockGrant>,
    /// Number of expired locks on the task that the lock replaces.
    pub expired: u64,
}

/// Filter of tasks; an absent field excludes none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskFilter {
    /// Required status.
    pub status: Option<TaskStatus>,
    /// Required owner.
    pub owner: Option<String>,
}

impl TaskFilter {
    /// Whether the filter includes this task.
    #[must_use]
    pub fn matches(&self, row: &TaskRow) -> bool {
        self.status.is_none_or(|status| row.record.status() == status)
            && self
                .owner
                .as_ref()
                .is_none_or(|owner| row.record.owner() == owner)
    }
}

/// Request for a page of the list of tasks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListQuery {
    /// Filter.
    pub filter: TaskFilter,
    /// Number of tasks to skip first.
    pub offset: u64,
    /// Maximum number of tasks.
    pub limit: Option<u64>,
}

/// Request to change the descriptive fields of a task.
#[derive(Debug, Clone, PartialEq)]
pub struct UpdateTask {
    /// The task.
    pub id: TaskId,
    /// Changed fields.
    pub patch: TaskPatch,
    /// Token of the lock on the task, if a holder of the lock asks; users have none.
    pub token: Option<u64>,
}

/// Request of a worker for a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Required owner of the task.
    pub owner: Option<String>,
    /// Tasks that the worker leaves to others.
    pub except: BTreeSet<TaskId>,
    /// Hold of the worker on the claimed task.
    pub hold: ExclusiveHold,
}

/// Request for a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acquire {
    /// Requested resource.
    pub resource: String,
    /// Holder that asks.
    pub holder: Holder,
    /// Requested mode.
    pub mode: LockMode,
    /// Time until the lock expires unless renewed; `None` for never.
    pub lease: Option<Duration>,
    /// Whether to refuse a holder that has a later resource in lock order.
    pub in_order: bool,
    /// Task to return as it is under the lock. If the task does not exist, no lock is granted.
    pub task: Option<TaskId>,
}

/// Granted lock.
#[derive(Debug, Clone, PartialEq)]
pub struct Acquired {
    /// The grant.
    pub held: LockGrant,
    /// Version of the resource.
    pub version: u64,
    /// Requested task.
    pub row: Option<TaskRow>,
    /// Number of expired locks that the grant replaces.
    pub expired: u64,
}

/// Request to release a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// Resource to release.
    pub resource: String,
    /// Holder that releases it.
    pub holder: Holder,
    /// Task whose log lines are written to its log file, and the number of the last written line; `None` if nothing was written.
    pub written: Option<(TaskId, u64)>,
}

/// Request to renew a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renew {
    /// Locked resource.
    pub resource: String,
    /// Token of the grant.
    pub token: u64,
    /// Length of the lease from now.
    pub lease: Duration,
}

/// Request to commit a change of a protected resource.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommitRequest {
    /// Resource.
    pub resource: String,
    /// Token of the grant.
    pub token: u64,
    /// Version that was read.
    pub expected_version: u64,
}

/// Lock in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HeldLock {
    /// Locked resource.
    pub resource: String,
    /// The grant.
    #[serde(flatten)]
    pub held: LockGrant,
}

impl HeldLock {
    /// Whether the lock is still held.
    #[must_use]
    pub fn lives(&self, now: Timestamp) -> bool {
        self.held.lives(now)
    }
}
