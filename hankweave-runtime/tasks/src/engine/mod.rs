//! What every backend does alike: each operation reads, decides with the rules of [`hankweave_task_model`] and writes, inside one transaction that the backend
//! brings (TASK-23).

mod claims;
mod coordinator;
mod locks;
mod registry;
#[cfg(test)]
mod tests;

use std::fmt;
use std::future::Future;

use hankweave_core::id::TaskId;
use hankweave_core::time::Timestamp;
use hankweave_task_model::registry::TaskRow;
use hankweave_task_model::{Held, Holder, LogEntry, Resource, TaskError};

use crate::coordinator::{HeldLock, Hints, ListQuery, TaskFilter};

/// Why an operation changed nothing.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The rules say no.
    Refused(TaskError),
    /// What is behind the backend does not answer; it may come back.
    Away(String),
    /// It answered that it cannot, such as a text that is too large for it.
    Failed(String),
}

impl From<TaskError> for Trouble {
    fn from(error: TaskError) -> Self {
        Self::Refused(error)
    }
}

pub(crate) type Tried<T> = Result<T, Trouble>;

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
    pub(crate) fn wants(self, held: &Held) -> bool {
        match self {
            Self::Expired(now) => !held.lives(now),
            Self::OfOwner(owner) => *held.holder.owner == *owner,
        }
    }
}

/// What is read beside a resource.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Beside<'a> {
    /// A task; with `deleted`, also when it was deleted.
    pub(crate) task: Option<&'a TaskId>,
    pub(crate) deleted: bool,
    /// The holder whose resources behind this one are looked for.
    pub(crate) behind: Option<&'a Holder>,
    /// Whether a token is drawn.
    pub(crate) token: bool,
}

/// A resource, and what was asked for beside it.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) resource: Resource,
    pub(crate) task: Option<TaskRow>,
    pub(crate) deleted_at: Option<Timestamp>,
    pub(crate) behind: Option<String>,
    pub(crate) token: u64,
}

/// One transaction. Nobody else changes what it has read before it ends. An operation that has written something refuses nothing behind that.
pub(crate) trait Tx: Send {
    /// Whether locks without end are possible: only where nobody holds one who can vanish alone.
    const ENDLESS: bool;

    fn fencing(&self) -> Fencing;
    /// The backend's own time; not before whatever was read.
    fn now(&mut self) -> impl Future<Output = Tried<Timestamp>> + Send;

    fn task(&mut self, id: &TaskId) -> impl Future<Output = Tried<Option<TaskRow>>> + Send;
    fn deleted_at(&mut self, id: &TaskId) -> impl Future<Output = Tried<Option<Timestamp>>> + Send;
    fn tasks(&mut self, query: &ListQuery) -> impl Future<Output = Tried<Vec<TaskRow>>> + Send;
    fn count(&mut self, filter: &TaskFilter) -> impl Future<Output = Tried<u64>> + Send;
    /// Writes a task that this transaction has looked for, whether it was there or not, and adds these lines to its log.
    fn put_task(&mut self, row: &TaskRow, lines: &[LogEntry]) -> impl Future<Output = Tried<()>> + Send;
    /// Removes the task with its log lines; its id stays taken.
    fn remove_task(&mut self, row: &TaskRow) -> impl Future<Output = Tried<()>> + Send;
    /// The ids of pending tasks that nobody holds, the oldest first.
    fn claimable(
        &mut self,
        owner: Option<&str>,
        limit: u32,
    ) -> impl Future<Output = Tried<Vec<TaskId>>> + Send;
    /// Running tasks that nobody holds and that were last changed before this, the oldest change first.
    fn orphans(&mut self, before: Timestamp) -> impl Future<Output = Tried<Vec<TaskRow>>> + Send;

    fn log_lines(&mut self, id: &TaskId, behind: u64) -> impl Future<Output = Tried<Vec<LogEntry>>> + Send;
    fn unwritten(&mut self, limit: u32) -> impl Future<Output = Tried<Vec<TaskRow>>> + Send;
    fn mark_written(&mut self, id: &TaskId, seq: u64) -> impl Future<Output = Tried<()>> + Send;

    fn resource(&mut self, name: &str) -> impl Future<Output = Tried<Resource>> + Send {
        async move { Ok(self.see(name, Beside::default()).await?.resource) }
    }
    /// A resource with what is asked for beside it.
    fn see(&mut self, name: &str, beside: Beside<'_>) -> impl Future<Output = Tried<Seen>> + Send;
    /// The same, or `None` when somebody else works on it at this moment.
    fn see_if_free(
        &mut self,
        name: &str,
        beside: Beside<'_>,
    ) -> impl Future<Output = Tried<Option<Seen>>> + Send {
        async move { self.see(name, beside).await.map(Some) }
    }
    fn put_resource(
        &mut self,
        name: &str,
        before: &Resource,
        after: Resource,
    ) -> impl Future<Output = Tried<()>> + Send;
    fn held(&mut self) -> impl Future<Output = Tried<Vec<HeldLock>>> + Send;
    /// The names of resources with such locks, in the order of their bytes.
    fn names_with(&mut self, removed: Removed<'_>) -> impl Future<Output = Tried<Vec<String>>> + Send;
}

/// A transaction in which no question takes a way of its own.
pub(crate) trait Local: Tx {
    fn known(&mut self, name: &str) -> Tried<Resource>;
    /// Greater than every token before it.
    fn next_token(&mut self) -> Tried<u64>;
    /// The first resource behind this one that the holder has, unless it has this one, too.
    fn held_behind(&mut self, name: &str, holder: &Holder) -> Tried<Option<String>>;
}

/// [`Tx::see`], one question after the other.
pub(crate) async fn see_locally<T: Local>(tx: &mut T, name: &str, beside: Beside<'_>) -> Tried<Seen> {
    let mut seen = Seen {
        resource: tx.known(name)?,
        ..Seen::default()
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

/// What a coordinator can be asked, as one transaction. It may be performed again when the first time came to nothing.
pub(crate) trait Operation: Send + Sync + 'static {
    type Output: Send + 'static;

    /// Whether it may write.
    const WRITES: bool = true;

    fn perform<T: Tx>(&self, tx: &mut T) -> impl Future<Output = Tried<Self::Output>> + Send;

    /// Whether somebody who waits for something to do should look again behind it.
    fn wakes(&self) -> bool {
        false
    }

    /// What it is when the backend cannot do it, with the backend's words.
    fn failed(&self, reason: String) -> TaskError {
        TaskError::LockBackendUnavailable(reason)
    }
}

/// A place where transactions are possible.
pub(crate) trait Backend: Send + Sync + fmt::Debug {
    fn run<O: Operation>(&self, operation: O) -> impl Future<Output = Result<O::Output, TaskError>> + Send;
    fn hints(&self) -> &Hints;
    fn close(&self) -> impl Future<Output = ()> + Send;
}

/// The error of an operation that came to nothing.
pub(crate) fn error_of<O: Operation>(operation: &O, trouble: Trouble) -> TaskError {
    match trouble {
        Trouble::Refused(error) => error,
        Trouble::Away(reason) => TaskError::LockBackendUnavailable(reason),
        Trouble::Failed(reason) => operation.failed(reason),
    }
}
