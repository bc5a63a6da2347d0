//! Requests to a coordinator.

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
    /// Who.
    pub holder: Holder,
    /// How long; `None` for ever, which only a coordinator inside one process allows.
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

/// A task to be created.
#[derive(Debug, Clone, PartialEq)]
pub struct Create {
    /// The task.
    pub task: NewTask,
    /// Hold of the creator, so that no worker claims the task before its files exist.
    pub hold: Option<ExclusiveHold>,
}

/// A task, and the lock on it if one was asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Claimed {
    /// The task as it was when the lock was granted.
    pub row: TaskRow,
    /// The lock.
    pub held: Option<LockGrant>,
    /// Number of expired locks on the task whose place it takes.
    pub expired: u64,
}

/// Filter of tasks; an absent field excludes none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskFilter {
    /// Only those of this status.
    pub status: Option<TaskStatus>,
    /// Only those of this owner.
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

/// A part of the tasks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListQuery {
    /// Which.
    pub filter: TaskFilter,
    /// Number of tasks to skip first.
    pub offset: u64,
    /// Most tasks after them.
    pub limit: Option<u64>,
}

/// A change of what people note about a task.
#[derive(Debug, Clone, PartialEq)]
pub struct UpdateTask {
    /// The task.
    pub id: TaskId,
    /// The fields.
    pub patch: TaskPatch,
    /// Token of the lock on the task, from its holder; users have none.
    pub token: Option<u64>,
}

/// Request of a worker for a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Only tasks of this owner.
    pub owner: Option<String>,
    /// Tasks that the worker leaves to others.
    pub except: BTreeSet<TaskId>,
    /// Hold of the worker on the claimed task.
    pub hold: ExclusiveHold,
}

/// Request for a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acquire {
    /// On what.
    pub resource: String,
    /// Who.
    pub holder: Holder,
    /// How it is shared.
    pub mode: LockMode,
    /// How long it is held unless it is renewed; `None` for ever.
    pub lease: Option<Duration>,
    /// Whether it is refused to a holder of something that stands behind it.
    pub in_order: bool,
    /// The task to return as it is under the lock; if there is none, there is no lock.
    pub task: Option<TaskId>,
}

/// A lock that was granted.
#[derive(Debug, Clone, PartialEq)]
pub struct Acquired {
    /// The grant.
    pub held: LockGrant,
    /// The version of the resource.
    pub version: u64,
    /// The task that was asked for.
    pub row: Option<TaskRow>,
    /// Number of expired locks whose place it takes.
    pub expired: u64,
}

/// Request to release a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// On what.
    pub resource: String,
    /// Who.
    pub holder: Holder,
    /// The task whose log lines are written, up to which number.
    pub written: Option<(TaskId, u64)>,
}

/// Request to renew a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renew {
    /// On what.
    pub resource: String,
    /// The token of the grant.
    pub token: u64,
    /// How long from now on.
    pub lease: Duration,
}

/// Request to commit a change of what a lock protects.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommitRequest {
    /// Resource.
    pub resource: String,
    /// The token of the grant.
    pub token: u64,
    /// The version that was read.
    pub expected_version: u64,
}

/// One lock of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HeldLock {
    /// On what.
    pub resource: String,
    /// The grant.
    #[serde(flatten)]
    pub held: LockGrant,
}

impl HeldLock {
    /// Whether it is still held.
    #[must_use]
    pub fn lives(&self, now: Timestamp) -> bool {
        self.held.lives(now)
    }
}
