//! Operations common to all backends. Each operation (a [`Transaction`]) reads, decides with the rules of [`hankweave_task_model`] and writes, through the
//! [`Tx`] of the backend that performs it: the backend's open transaction (TASK-23).

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
    /// The rules refuse the operation.
    Refused(TaskError),
    /// The backend cannot perform it now and may later: its service does not answer, has no room, or other transactions were always quicker.
    Away(String),
    /// The backend can never perform it, such as store a text that is too large.
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

/// Condition for the removal of locks.
#[derive(Debug, Clone, Copy)]
pub(crate) enum LocksToRemove<'a> {
    /// Locks that have expired at this lease time.
    Expired(Timestamp),
    /// Locks of this owner, live or not.
    OfOwner(&'a str),
}

impl LocksToRemove<'_> {
    /// Whether a lock meets the condition.
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
    /// Task to read.
    pub(crate) task: Option<&'a TaskId>,
    /// Whether to read also the time of the task's deletion.
    pub(crate) deleted: bool,
    /// Holder whose lock order is to be checked, by reading its first resource after the requested one.
    pub(crate) holder: Option<&'a Holder>,
    /// Whether to get a new token.
    pub(crate) token: bool,
}

/// Resource, with the data requested by the `ReadSet`. A field that was not requested is empty or 0.
#[derive(Debug, Default)]
pub(crate) struct ResourceView {
    pub(crate) resource: Resource,
    pub(crate) task: Option<TaskRow>,
    pub(crate) deleted_at: Option<Timestamp>,
    /// First resource of `ReadSet::holder` after `resource` in lock order; `None` also if the holder has `resource` itself.
    pub(crate) later_resource: Option<String>,
    pub(crate) token: u64,
}

/// Open transaction of a backend. Until it ends, no other transaction changes the data that it has read. An operation must not refuse anything after its
/// first write, because not every backend rolls a refused operation back.
pub(crate) trait Tx: Send {
    /// Whether locks without a lease are possible: only if all holders are in the registry's own process, so that none can vanish alone.
    const ENDLESS: bool;

    fn fencing(&self) -> Fencing;
    /// Returns the time for records.
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

    fn log_lines(
        &mut self,
        id: &TaskId,
        after_seq: u64,
    ) -> impl Future<Output = TxResult<Vec<LogEntry>>> + Send;
    fn unwritten(&mut self, limit: u32) -> impl Future<Output = TxResult<Vec<TaskRow>>> + Send;
    fn mark_written(&mut self, id: &TaskId, seq: u64) -> impl Future<Output = TxResult<()>> + Send;

    fn resource(&mut self, name: &str) -> impl Future<Output = TxResult<Resource>> + Send {
        async move { Ok(self.read_view(name, ReadSet::default()).await?.resource) }
    }
    /// Reads a resource, with the data of `read_set`.
    fn read_view(
        &mut self,
        name: &str,
        read_set: ReadSet<'_>,
    ) -> impl Future<Output = TxResult<ResourceView>> + Send;
    /// Like `read_view`, but returns `None` if another transaction has the resource at this moment.
    fn read_view_if_free(
        &mut self,
        name: &str,
        read_set: ReadSet<'_>,
    ) -> impl Future<Output = TxResult<Option<ResourceView>>> + Send {
        async move { self.read_view(name, read_set).await.map(Some) }
    }
    fn put_resource(
        &mut self,
        name: &str,
        before: &Resource,
        after: Resource,
    ) -> impl Future<Output = TxResult<()>> + Send;
    fn held(&mut self) -> impl Future<Output = TxResult<Vec<HeldLock>>> + Send;
    /// Returns the names of resources with locks to remove, in byte order.
    fn names_with(&mut self, locks: LocksToRemove<'_>) -> impl Future<Output = TxResult<Vec<String>>> + Send;
}

/// Transaction on data of this machine, where each read is answered at once.
pub(crate) trait LocalTx: Tx {
    /// Reads a resource by its name.
    fn read_resource(&mut self, name: &str) -> TxResult<Resource>;
    /// Returns a token greater than all earlier ones.
    fn next_token(&mut self) -> TxResult<u64>;
    /// Returns the holder's first resource after `name` in lock order; `None` also if the holder has `name`.
    fn held_behind(&mut self, name: &str, holder: &Holder) -> TxResult<Option<String>>;
}

/// Implements [`Tx::read_view`] by one read after the other.
pub(crate) async fn read_view_locally<T: LocalTx>(
    tx: &mut T,
    name: &str,
    read_set: ReadSet<'_>,
) -> TxResult<ResourceView> {
    let mut view = ResourceView {
        resource: tx.read_resource(name)?,
        ..ResourceView::default()
    };
    if let Some(id) = read_set.task {
        view.task = tx.task(id).await?;
        if read_set.deleted {
            view.deleted_at = tx.deleted_at(id).await?;
        }
    }
    if let Some(holder) = read_set.holder {
        view.later_resource = tx.held_behind(name, holder)?;
    }
    if read_set.token {
        view.token = tx.next_token()?;
    }
    Ok(view)
}

/// Operation of a coordinator, as one transaction. It may be performed again if the first attempt failed.
pub(crate) trait Transaction: Send + Sync + 'static {
    type Output: Send + 'static;

    /// Whether the operation may write.
    const WRITES: bool = true;

    fn perform<T: Tx>(&self, tx: &mut T) -> impl Future<Output = TxResult<Self::Output>> + Send;

    /// Whether a success may give work to workers: a task to claim or to stop. Then all listeners are notified.
    fn notifies(&self) -> bool {
        false
    }

    /// Returns the error for an operation that the backend can never perform, for `reason`.
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
