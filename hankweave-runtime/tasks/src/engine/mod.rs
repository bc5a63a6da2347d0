//! Operations common to all backends. Each reads, decides with the rules of [`hankweave_task_model`] and writes, inside one transaction of the
//! backend (TASK-23).

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

/// Reason why an operation changed nothing.
#[derive(Debug)]
pub(crate) enum TxError {
    /// The rules refuse it.
    Refused(TaskError),
    /// The backend cannot do it now and may later: its service does not answer, has no room, or others were always quicker.
    Away(String),
    /// The backend cannot do it, however long one waits, such as store a text that is too large for it.
    Failed(String),
}

impl From<TaskError> for TxError {
    fn from(error: TaskError) -> Self {
        Self::Refused(error)
    }
}

pub(crate) type TxResult<T> = Result<T, TxError>;

/// Whether tokens are checked. Tests show what happens without that check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fencing {
    Checked,
    #[cfg(test)]
    Skipped,
}

/// Kind of locks to remove.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Removed<'a> {
    Expired(Timestamp),
    OfOwner(&'a str),
}

impl Removed<'_> {
    /// Whether a lock is of this kind.
    pub(crate) fn matches(self, held: &LockGrant) -> bool {
        match self {
            Self::Expired(now) => !held.lives(now),
            Self::OfOwner(owner) => *held.holder.owner == *owner,
        }
    }
}

/// Data to read together with a resource.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ReadSet<'a> {
    /// Task to read; with `deleted`, also the time of its deletion.
    pub(crate) task: Option<&'a TaskId>,
    pub(crate) deleted: bool,
    /// Holder whose first resource after this one is read.
    pub(crate) behind: Option<&'a Holder>,
    /// Whether to draw a token.
    pub(crate) token: bool,
}

/// Resource, with the data requested by the `ReadSet`.
#[derive(Debug, Default)]
pub(crate) struct ResourceView {
    pub(crate) resource: Resource,
    pub(crate) task: Option<TaskRow>,
    pub(crate) deleted_at: Option<Timestamp>,
    pub(crate) behind: Option<String>,
    pub(crate) token: u64,
}

/// Transaction. Until it ends, no other transaction changes what it has read. An operation must not refuse anything after its first write.
pub(crate) trait Tx: Send {
    /// Whether locks without a lease are possible: only if all holders are in the registry's own process, so that none can vanish alone.
    const ENDLESS: bool;

    fn fencing(&self) -> Fencing;
    /// Returns the time for records, which is never before a time that was read.
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
    /// Writes a task that this transaction has looked up, new or existing, and adds these lines to its log.
    fn put_task(&mut self, row: &TaskRow, lines: &[LogEntry]) -> impl Future<Output = TxResult<()>> + Send;
    /// Removes the task with its log lines. Its id stays in use.
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
    /// Reads a resource, with the requested data.
    fn see(&mut self, name: &str, beside: ReadSet<'_>)
    -> impl Future<Output = TxResult<ResourceView>> + Send;
    /// Like `see`, but returns `None` if another transaction has the resource at this moment.
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
    /// Returns the names of resources with locks of this kind, in byte order.
    fn names_with(&mut self, removed: Removed<'_>) -> impl Future<Output = TxResult<Vec<String>>> + Send;
}

/// Transaction on local data, where every question is answered at once.
pub(crate) trait LocalTx: Tx {
    /// Reads a resource by its name.
    fn read_resource(&mut self, name: &str) -> TxResult<Resource>;
    /// Returns a token greater than all earlier ones.
    fn next_token(&mut self) -> TxResult<u64>;
    /// Returns the holder's first resource after this one; `None` if it has this one too.
    fn held_behind(&mut self, name: &str, holder: &Holder) -> TxResult<Option<String>>;
}

/// Implements [`Tx::see`] by asking one question after the other.
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

/// Operation of a coordinator, as one transaction. It may be performed again if the first attempt failed.
pub(crate) trait Transaction: Send + Sync + 'static {
    type Output: Send + 'static;

    /// Whether the operation may write.
    const WRITES: bool = true;

    fn perform<T: Tx>(&self, tx: &mut T) -> impl Future<Output = TxResult<Self::Output>> + Send;

    /// Whether to notify those who wait for a task or a lock after the operation.
    fn notifies(&self) -> bool {
        false
    }

    /// Returns the error for a backend that cannot perform the operation, for `reason`. Waiting does not help then.
    fn failed(&self, reason: String) -> TaskError {
        TaskError::RegistryUnusable(reason)
    }
}

/// Backend of a coordinator, which performs transactions.
pub(crate) trait Backend: Send + Sync + fmt::Debug {
    fn run<O: Transaction>(&self, operation: O) -> impl Future<Output = Result<O::Output, TaskError>> + Send;
    fn hints(&self) -> &Hints;
    fn close(&self) -> impl Future<Output = ()> + Send;
}

/// Returns the error of an operation that failed.
pub(crate) fn error_of<O: Transaction>(operation: &O, trouble: TxError) -> TaskError {
    match trouble {
        TxError::Refused(error) => error,
        TxError::Away(reason) => TaskError::LockBackendUnavailable(reason),
        TxError::Failed(reason) => operation.failed(reason),
    }
}
