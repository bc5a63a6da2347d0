//! Operations common to all backends: each reads, decides with the rules of [`hankweave_task_model`] and writes, inside one transaction that the backend
//! brings (TASK-23).

mod claims;
mod coordinator;
mod lease_clock;
mod locks;
mod registry;
#[cfg(test)]
mod tests;

use std::fmt;
use std::future::Future;

use hankweave_core::id::TaskId;
use hankweave_core::time::Timestamp;
use hankweave_task_model::registry::TaskRow;
use hankweave_task_model::{Holder, LockGrant, LogEntry, Resource, TaskError};

use crate::coordinator::{HeldLock, Hints, ListQuery, TaskFilter};

pub(crate) use lease_clock::{LeaseClock, start_of_machine};

/// Why an operation changed nothing.
#[derive(Debug)]
pub(crate) enum TxError {
    /// The rules say no.
    Refused(TaskError),
    /// The service of the backend does not answer; it may come back.
    Away(String),
    /// It answered that it cannot, such as a text that is too large for it.
    Failed(String),
}

impl From<TaskError> for TxError {
    fn from(error: TaskError) -> Self {
        Self::Refused(error)
    }
}

pub(crate) type TxResult<T> = Result<T, TxError>;

/// Whether tokens are looked at; tests show what happens when they are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fencing {
    Checked,
    #[cfg(test)]
    Skipped,
}

/// Locks of which some are removed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Removed<'a> {
    Expired(Timestamp),
    OfOwner(&'a str),
}

impl Removed<'_> {
    /// Whether a lock is one of them.
    pub(crate) fn matches(self, held: &LockGrant) -> bool {
        match self {
            Self::Expired(now) => !held.lives(now),
            Self::OfOwner(owner) => *held.holder.owner == *owner,
        }
    }
}

/// Data read together with a resource.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ReadSet<'a> {
    /// A task; with `deleted`, also when it was deleted.
    pub(crate) task: Option<&'a TaskId>,
    pub(crate) deleted: bool,
    /// The holder whose resources after this one are looked for.
    pub(crate) behind: Option<&'a Holder>,
    /// Whether a token is drawn.
    pub(crate) token: bool,
}

/// A resource, and what was asked for beside it.
#[derive(Debug, Default)]
pub(crate) struct ResourceView {
    pub(crate) resource: Resource,
    pub(crate) task: Option<TaskRow>,
    pub(crate) deleted_at: Option<Timestamp>,
    pub(crate) behind: Option<String>,
    pub(crate) token: u64,
}

/// One transaction. Nobody else changes what it has read before it ends. An operation that has written something refuses nothing after that.
pub(crate) trait Tx: Send {
    /// Whether locks without end are possible: only where nobody holds one who can vanish alone.
    const ENDLESS: bool;

    fn fencing(&self) -> Fencing;
    /// Returns the time for records; not before any time that was read.
    fn now(&mut self) -> impl Future<Output = TxResult<Timestamp>> + Send;
    /// Returns the time that leases follow.
    fn lease_now(&mut self) -> impl Future<Output = TxResult<Timestamp>> + Send {
        self.now()
    }

    fn task(&mut self, id: &TaskId) -> impl Future<Output = TxResult<Option<TaskRow>>> + Send;
    fn deleted_at(&mut self, id: &TaskId) -> impl Future<Output = TxResult<Option<Timestamp>>> + Send;
    /// Whether a task, deleted or not, has completed; `None` if there never was one of this id.
    fn has_completed(&mut self, id: &TaskId) -> impl Future<Output = TxResult<Option<bool>>> + Send;
    fn tasks(&mut self, query: &ListQuery) -> impl Future<Output = TxResult<Vec<TaskRow>>> + Send;
    fn count(&mut self, filter: &TaskFilter) -> impl Future<Output = TxResult<u64>> + Send;
    /// Writes a task that this transaction has looked for, whether it was there or not, and adds these lines to its log.
    fn put_task(&mut self, row: &TaskRow, lines: &[LogEntry]) -> impl Future<Output = TxResult<()>> + Send;
    /// Removes the task with its log lines; its id stays taken.
    fn remove_task(&mut self, row: &TaskRow) -> impl Future<Output = TxResult<()>> + Send;
    /// Returns the ids of pending tasks without a live lock whose earlier tasks have completed: the highest priority first, then the oldest.
    fn claimable(
        &mut self,
        owner: Option<&str>,
        limit: u32,
    ) -> impl Future<Output = TxResult<Vec<TaskId>>> + Send;
    /// Returns the running tasks without a live lock that were last changed before this lease time, the oldest change first.
    fn orphans(&mut self, before: Timestamp) -> impl Future<Output = TxResult<Vec<TaskRow>>> + Send;

    fn log_lines(&mut self, id: &TaskId, behind: u64)
    -> impl Future<Output = TxResult<Vec<LogEntry>>> + Send;
    fn unwritten(&mut self, limit: u32) -> impl Future<Output = TxResult<Vec<TaskRow>>> + Send;
    fn mark_written(&mut self, id: &TaskId, seq: u64) -> impl Future<Output = TxResult<()>> + Send;

    fn resource(&mut self, name: &str) -> impl Future<Output = TxResult<Resource>> + Send {
        async move { Ok(self.see(name, ReadSet::default()).await?.resource) }
    }
    /// A resource with what is asked for beside it.
    fn see(&mut self, name: &str, beside: ReadSet<'_>)
    -> impl Future<Output = TxResult<ResourceView>> + Send;
    /// Reads it, or returns `None` when another worker has it at this moment.
    fn see_if_free(
        &mut self,
        name: &str,
        beside: ReadSet<'_>,
    ) -> impl Future<Output = TxResult<Option<ResourceView>>> + Send {
        async move { self.see(name, beside).await.map(Some) }
    }
    fn put_resource(
        &mut self,
        name: &str,
        before: &Resource,
        after: Resource,
    ) -> impl Future<Output = TxResult<()>> + Send;
    fn held(&mut self) -> impl Future<Output = TxResult<Vec<HeldLock>>> + Send;
    /// The names of resources with such locks, in the order of their bytes.
    fn names_with(&mut self, removed: Removed<'_>) -> impl Future<Output = TxResult<Vec<String>>> + Send;
}

/// A transaction in which no question takes a way of its own.
pub(crate) trait LocalTx: Tx {
    /// Reads a resource by its name.
    fn read_resource(&mut self, name: &str) -> TxResult<Resource>;
    /// Greater than every token before it.
    fn next_token(&mut self) -> TxResult<u64>;
    /// The first resource after this one that the holder has, unless it has this one, too.
    fn held_behind(&mut self, name: &str, holder: &Holder) -> TxResult<Option<String>>;
}

/// [`Tx::see`], one question after the other.
pub(crate) async fn see_locally<T: LocalTx>(
    tx: &mut T,
    name: &str,
    beside: ReadSet<'_>,
) -> TxResult<ResourceView> {
    let mut seen = ResourceView {
        resource: tx.read_resource(name)?,
        ..ResourceView::default()
    };
    if let Some(id) = beside.task {
        seen.task = tx.task(id).await?;
        if beside.deleted {
            seen.deleted_at = tx.deleted_at(id).await?;
        }
    }
    if let Some(holder) = beside.behind {
        seen.behind = tx.held_behind(name, holder)?;
    }
    if beside.token {
        seen.token = tx.next_token()?;
    }
    Ok(seen)
}

/// Operation of a coordinator, as one transaction. It may be repeated when the first attempt failed.
pub(crate) trait Transaction: Send + Sync + 'static {
    type Output: Send + 'static;

    /// Whether it may write.
    const WRITES: bool = true;

    fn perform<T: Tx>(&self, tx: &mut T) -> impl Future<Output = TxResult<Self::Output>> + Send;

    /// Whether those who wait for a task or a lock are notified after it.
    fn notifies(&self) -> bool {
        false
    }

    /// Returns the error if the backend answers that it cannot perform the operation, for `reason`. Waiting does not help then.
    fn failed(&self, reason: String) -> TaskError {
        TaskError::RegistryUnusable(reason)
    }
}

/// A place where transactions are possible.
pub(crate) trait Backend: Send + Sync + fmt::Debug {
    fn run<O: Transaction>(&self, operation: O) -> impl Future<Output = Result<O::Output, TaskError>> + Send;
    fn hints(&self) -> &Hints;
    fn close(&self) -> impl Future<Output = ()> + Send;
}

/// The error of an operation that came to nothing.
pub(crate) fn error_of<O: Transaction>(operation: &O, trouble: TxError) -> TaskError {
    match trouble {
        TxError::Refused(error) => error,
        TxError::Away(reason) => TaskError::LockBackendUnavailable(reason),
        TxError::Failed(reason) => operation.failed(reason),
    }
}
