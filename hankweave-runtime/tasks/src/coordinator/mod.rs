//! Interface of coordinators, which store tasks and locks (TASK-23). `engine` implements it for every backend.

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

/// Store of tasks and locks for many workers. Each method is one atomic step, durable when it returns (TASK-23).
///
/// Every method fails with [`TaskError::LockBackendUnavailable`] while the backend is away, and works again when the backend is back.
pub trait Coordinator: Send + Sync + fmt::Debug {
    /// Returns the time that decides which locks have expired.
    fn now(&self) -> CoordinatorFuture<'_, Timestamp>;

    /// Creates a task, held by its creator if requested.
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::TaskCreateFailed`] for an id that is or was in use.
    fn create(&self, create: Create) -> CoordinatorFuture<'_, Claimed>;

    /// Creates all of these tasks, or none.
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::TaskBulkInsertFailed`] for an id that is or was in use, or occurs twice.
    fn create_all(
        &self,
        tasks: Vec<hankweave_task_model::registry::NewTask>,
    ) -> CoordinatorFuture<'_, Vec<TaskRow>>;

    /// Returns a task; `None` also for a deleted one.
    fn task(&self, id: TaskId) -> CoordinatorFuture<'_, Option<TaskRow>>;

    /// Returns the time at which a task of this id was deleted, if one was; its id cannot be used again.
    fn deleted_at(&self, id: TaskId) -> CoordinatorFuture<'_, Option<Timestamp>>;

    /// Lists tasks, newest first; tasks created at one moment are ordered by id.
    fn tasks(&self, query: ListQuery) -> CoordinatorFuture<'_, Vec<TaskRow>>;

    /// Counts tasks.
    fn count(&self, filter: TaskFilter) -> CoordinatorFuture<'_, u64>;

    /// Changes the descriptive fields of a task.
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::TaskNotFound`], [`TaskError::VersionConflict`], and with a token [`TaskError::StaleToken`].
    fn update(&self, update: UpdateTask) -> CoordinatorFuture<'_, TaskRow>;

    /// Takes steps of a task and adds the log lines about them (TASK-20, TASK-21). After `delete` the task no longer exists, but its id stays in use.
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::TaskNotFound`], [`TaskError::StaleToken`] unless the token is that of a living holder of the task's lock,
    /// [`TaskError::VersionConflict`] or [`TaskError::InvalidTransition`].
    fn change(&self, change: RegistryChange) -> CoordinatorFuture<'_, ChangedTask>;

    /// Asks the worker of a task to stop, on behalf of the user `by`; the request is stored in the task's row until the next step.
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::TaskNotFound`].
    fn request_cancel(&self, id: TaskId, by: Option<String>) -> CoordinatorFuture<'_, TaskRow>;

    /// Returns a task's log lines after number `after_seq`, in order (TASK-21). They are stored until the task is deleted.
    fn log_lines(&self, id: TaskId, after_seq: u64) -> CoordinatorFuture<'_, Vec<LogEntry>>;

    /// Returns up to `limit` tasks whose log files may lack lines of the registry.
    fn unwritten(&self, limit: u32) -> CoordinatorFuture<'_, Vec<TaskRow>>;

    /// Notes that a task's log lines up to number `seq` are in its log file.
    fn mark_written(&self, id: TaskId, seq: u64) -> CoordinatorFuture<'_, ()>;

    /// Claims a pending task without a holder, with an exclusive lock for the caller: of those whose earlier tasks have completed, the one of highest
    /// priority, the oldest first. `None` if there is none.
    fn claim(&self, claim: Claim) -> CoordinatorFuture<'_, Option<Claimed>>;

    /// Returns running tasks without a holder that were unchanged for longer than `unchanged_for`, or that are to be cancelled (TASK-24).
    fn orphans(&self, unchanged_for: Duration) -> CoordinatorFuture<'_, Vec<TaskRow>>;

    /// Grants a lock, or returns the conflicting holder as an error; never waits.
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::ResourceLocked`], [`TaskError::LockOrder`], or [`TaskError::TaskNotFound`] for a lock on a missing task. Returns
    /// [`TaskError::InvalidArgument`] for a lock without a lease, unless all holders are in this process.
    fn acquire(&self, acquire: Acquire) -> CoordinatorFuture<'_, Acquired>;

    /// Releases one acquisition and returns the grant with the remaining count; `None` if the lock had no holder.
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::LockNotHeld`] when only others hold it.
    fn release(&self, release: Release) -> CoordinatorFuture<'_, Option<LockGrant>>;

    /// Extends a lock and returns its new end.
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::LockTimeout`] when it has expired.
    fn renew(&self, renew: Renew) -> CoordinatorFuture<'_, Timestamp>;

    /// Raises the version of a resource, if the holder has read the current one.
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::StaleToken`] or [`TaskError::VersionConflict`].
    fn commit(&self, commit: CommitRequest) -> CoordinatorFuture<'_, u64>;

    /// Returns a resource with its holders, including those whose locks have expired and are not removed yet.
    fn resource(&self, name: String) -> CoordinatorFuture<'_, Resource>;

    /// Lists all locks in the byte order of their names, without the presences of workers.
    fn held(&self) -> CoordinatorFuture<'_, Vec<HeldLock>>;

    /// Lists the present workers, by name (TASK-128).
    fn workers(&self) -> CoordinatorFuture<'_, Vec<WorkerPresence>>;

    /// Removes expired locks and returns their number.
    fn clean_up(&self) -> CoordinatorFuture<'_, u64>;

    /// Removes all locks of an owner, in every scope, and returns their number.
    fn emergency_clean_up(&self, owner: String) -> CoordinatorFuture<'_, u64>;

    /// Returns a listener for hints that there may be a task to claim or to stop. Hints may come too often and, between machines, not at all.
    fn changes(&self) -> Changes;

    /// Ends the background work. Later requests fail as if the backend were away.
    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}
