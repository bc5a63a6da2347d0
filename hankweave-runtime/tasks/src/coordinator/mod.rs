//! The one truth about tasks and locks, wherever it is kept (TASK-23).

mod changes;
mod presence;
mod request;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use hankweave_core::id::TaskId;
use hankweave_core::time::Timestamp;
use hankweave_task_model::registry::{ChangedTask, RegistryChange, TaskRow};
use hankweave_task_model::{LockGrant, LogEntry, Resource, TaskError};

pub use changes::{Changes, Hints};
pub use presence::{OrphanAction, Presence, WorkerPresence, WorkerTerms};
pub(crate) use presence::{present, terms_in, terms_of};
pub use request::{
    Acquire, Acquired, Claim, Claimed, CommitRequest, Create, ExclusiveHold, HeldLock, ListQuery, Release,
    Renew, TaskFilter, UpdateTask,
};

/// Future of a coordinator's result.
pub type CoordinatorFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, TaskError>> + Send + 'a>>;

/// Keeps tasks and locks for many workers. Each method is one atomic step, durable when it is answered (TASK-23).
///
/// Every one of them fails with [`TaskError::LockBackendUnavailable`] while what is behind it is away, and works again when that is back.
pub trait Coordinator: Send + Sync + fmt::Debug {
    /// The time by which it decides what has expired.
    fn now(&self) -> CoordinatorFuture<'_, Timestamp>;

    /// Creates a task, held by its creator if that is asked for.
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::TaskCreateFailed`] for an id that is or was in use.
    fn create(&self, create: Create) -> CoordinatorFuture<'_, Claimed>;

    /// Creates all of these tasks, or none.
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::TaskBulkInsertFailed`] for an id that is or was in use, or comes twice.
    fn create_all(
        &self,
        tasks: Vec<hankweave_task_model::registry::NewTask>,
    ) -> CoordinatorFuture<'_, Vec<TaskRow>>;

    /// A task; `None` also for one that was deleted.
    fn task(&self, id: TaskId) -> CoordinatorFuture<'_, Option<TaskRow>>;

    /// When a task was deleted whose id therefore stays taken.
    fn deleted_at(&self, id: TaskId) -> CoordinatorFuture<'_, Option<Timestamp>>;

    /// Tasks, the newest first, and among those of one moment in the order of their ids.
    fn tasks(&self, query: ListQuery) -> CoordinatorFuture<'_, Vec<TaskRow>>;

    /// How many there are.
    fn count(&self, filter: TaskFilter) -> CoordinatorFuture<'_, u64>;

    /// Changes what people note about a task.
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::TaskNotFound`], [`TaskError::VersionConflict`], and with a token [`TaskError::StaleToken`].
    fn update(&self, update: UpdateTask) -> CoordinatorFuture<'_, TaskRow>;

    /// Takes steps of a task, with the log lines about them (TASK-20, TASK-21). After `delete` the task is gone and its id stays taken.
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::TaskNotFound`], [`TaskError::StaleToken`] unless the token is that of a living holder of the task's lock,
    /// [`TaskError::VersionConflict`] or [`TaskError::InvalidTransition`].
    fn change(&self, change: RegistryChange) -> CoordinatorFuture<'_, ChangedTask>;

    /// Asks the worker of a task to stop, for a user; the request is stored in its row until the next step.
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::TaskNotFound`].
    fn request_cancel(&self, id: TaskId, by: Option<String>) -> CoordinatorFuture<'_, TaskRow>;

    /// The log lines of a task after a number, in their order (TASK-21). They stay until the task is deleted.
    fn log_lines(&self, id: TaskId, behind: u64) -> CoordinatorFuture<'_, Vec<LogEntry>>;

    /// Some tasks of which not all log lines are known to be written.
    fn unwritten(&self, limit: u32) -> CoordinatorFuture<'_, Vec<TaskRow>>;

    /// Notes that the lines of a task are written up to this one.
    fn mark_written(&self, id: TaskId, seq: u64) -> CoordinatorFuture<'_, ()>;

    /// The oldest pending task that nobody holds, now held exclusively by whoever asks; `None` when there is none.
    fn claim(&self, claim: Claim) -> CoordinatorFuture<'_, Option<Claimed>>;

    /// Tasks that are running, that nobody holds, and that were not changed for longer than this or are to be cancelled (TASK-24).
    fn orphans(&self, unchanged_for: Duration) -> CoordinatorFuture<'_, Vec<TaskRow>>;

    /// Grants a lock, or says who is in the way; never waits for it.
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::ResourceLocked`], [`TaskError::LockOrder`], [`TaskError::TaskNotFound`] for a lock on a task that is not there, or
    /// [`TaskError::InvalidArgument`] for one without end where a holder may vanish without a trace.
    fn acquire(&self, acquire: Acquire) -> CoordinatorFuture<'_, Acquired>;

    /// Releases one grant and returns it with the count that is left; `None` when nobody held it.
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::LockNotHeld`] when only others hold it.
    fn release(&self, release: Release) -> CoordinatorFuture<'_, Option<LockGrant>>;

    /// Moves the end of a lock.
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::LockTimeout`] when it has expired.
    fn renew(&self, renew: Renew) -> CoordinatorFuture<'_, Timestamp>;

    /// Raises the version of a resource, for a holder that has read this one.
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::StaleToken`] or [`TaskError::VersionConflict`].
    fn commit(&self, commit: CommitRequest) -> CoordinatorFuture<'_, u64>;

    /// A resource, with those who hold it and those who did when it was last looked at.
    fn resource(&self, name: String) -> CoordinatorFuture<'_, Resource>;

    /// All that are held, in the order of the bytes of their names, without the presences of workers.
    fn held(&self) -> CoordinatorFuture<'_, Vec<HeldLock>>;

    /// Workers that are there, in the order of their names (TASK-128).
    fn workers(&self) -> CoordinatorFuture<'_, Vec<WorkerPresence>>;

    /// Removes locks that have expired, and says how many.
    fn clean_up(&self) -> CoordinatorFuture<'_, u64>;

    /// Removes all locks of an owner, whatever their scope, and says how many.
    fn emergency_clean_up(&self, owner: String) -> CoordinatorFuture<'_, u64>;

    /// Tells when there may be something to claim or to stop. It is a hint: it may come too often and, between machines, not at all.
    fn changes(&self) -> Changes;

    /// Ends what works for it in the background. Whoever asks it something later is told that it is away.
    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}
