//! Errors of the task system, each with a code that never changes.

use hankweave_core::id::InvalidId;

/// Reason of a refusal. A refused request has changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    /// Another live holder's mode excludes this one.
    #[error("`{resource}` is held by {}", holder_name(existing_owner))]
    ResourceLocked {
        /// Requested resource.
        resource: String,
        /// Owner that holds it.
        existing_owner: String,
    },
    /// Only other holders hold the resource.
    #[error("`{resource}` is held by others only")]
    LockNotHeld {
        /// Resource to release.
        resource: String,
    },
    /// The lock has expired, so its holder must stop writing.
    #[error("the lock on `{resource}` has expired")]
    LockTimeout {
        /// Resource of the lock.
        resource: String,
    },
    /// The token has no live holder, or a later token has written.
    #[error("token {token} for `{resource}` is stale")]
    StaleToken {
        /// Resource to write.
        resource: String,
        /// Presented token.
        token: u64,
    },
    /// Another writer has committed since the version was read; read again.
    #[error("`{resource}` is at version {version}")]
    VersionConflict {
        /// Resource to write.
        resource: String,
        /// Current version.
        version: u64,
    },
    /// The holder has a lock that comes later in the lock order.
    #[error("`{resource}` sorts before `{held}`, which is already held; acquire both at once")]
    LockOrder {
        /// Requested resource.
        resource: String,
        /// Resource that the holder has.
        held: String,
    },
    /// Invalid argument.
    #[error("{0}")]
    InvalidArgument(&'static str),
    /// Some of several locks could not be released; the others were released.
    #[error("these locks were not released: {}", resources.join(", "))]
    BatchUnlockFailed {
        /// Resources that are still locked.
        resources: Vec<String>,
    },
    /// The registry did not answer in time; it may answer later.
    #[error("the registry does not answer: {0}")]
    LockBackendUnavailable(String),
    /// Every attempt has failed.
    #[error("{last}, after {attempts} attempts")]
    TriesUsedUp {
        /// Number of attempts.
        attempts: u32,
        /// Error of the last attempt; its code is the code of this error.
        last: Box<Self>,
    },
    /// The registry cannot be opened.
    #[error("the registry cannot be opened: {0}")]
    RegistryNotInitialized(String),
    /// The registry answers, but its contents are unusable: its file or tables are damaged, or its user lacks a right.
    #[error("the registry cannot be used: {0}")]
    RegistryUnusable(String),
    /// Invalid task id (TASK-90).
    #[error("`{id}` is no id of a task: {reason}")]
    InvalidTaskId {
        /// Given id.
        id: String,
        /// Rule that the id breaks.
        reason: &'static str,
    },
    /// The task does not exist.
    #[error("there is no task `{0}`")]
    TaskNotFound(String),
    /// The task was not created.
    #[error("task `{id}` was not created: {reason}")]
    TaskCreateFailed {
        /// The task.
        id: String,
        /// Reason.
        reason: String,
    },
    /// The folder of the task holds files of a task with an equal id, which another registry created.
    #[error("`{folder}` has the files of another registry's task `{id}`")]
    FolderTaken {
        /// The task.
        id: String,
        /// Its folder.
        folder: String,
    },
    /// The files of the task are in another folder, so that a start in this one would begin anew.
    #[error("task `{id}` was begun in `{folder}` on {machine}, and its files are not here")]
    FilesElsewhere {
        /// The task.
        id: String,
        /// Machine with the files.
        machine: String,
        /// Folder of tasks there.
        folder: String,
    },
    /// The task was not changed.
    #[error("task `{id}` was not changed: {reason}")]
    TaskUpdateFailed {
        /// The task.
        id: String,
        /// Why.
        reason: String,
    },
    /// The task was not deleted.
    #[error("task `{id}` was not deleted: {reason}")]
    TaskDeleteFailed {
        /// The task.
        id: String,
        /// Reason.
        reason: String,
    },
    /// None of several tasks was created.
    #[error("none of the tasks was created: {0}")]
    TaskBulkInsertFailed(String),
    /// The task's status does not permit this step.
    #[error("task `{id}` is {from}; {}", needed(method))]
    InvalidTransition {
        /// The task.
        id: String,
        /// Status of the task.
        from: &'static str,
        /// Requested method.
        method: &'static str,
    },
    /// The total budget of the task is spent, so that its next attempt would fail at once.
    #[error("task `{id}` has used {used} of its total budget of {limit}, and would fail again at once")]
    BudgetSpent {
        /// The task.
        id: String,
        /// Amount or time that all attempts have used.
        used: String,
        /// Limit for the next attempt.
        limit: String,
    },
    /// A hook has refused the step.
    #[error("{hook} forbids the step: {reason}")]
    HookVeto {
        /// Name of the hook.
        hook: String,
        /// Reason.
        reason: String,
    },
    /// A hook took too long.
    #[error("{hook} took longer than {seconds} s")]
    HookTimeout {
        /// Name of the hook.
        hook: String,
        /// Time limit of a hook, in seconds.
        seconds: u64,
    },
    /// The state cannot be written as canonical JSON.
    #[error("the state cannot be saved: {0}")]
    StateSaveFailed(&'static str),
    /// The state cannot be read.
    #[error("the state cannot be loaded: {0}")]
    StateLoadFailed(String),
    /// The state differs from what was saved.
    #[error("the state is not what was saved: {0}")]
    StateValidationFailed(&'static str),
    /// The name is not that of a checkpoint.
    #[error("`{0}` is no name of a checkpoint; one is `checkpoint_` and up to 16 digits")]
    InvalidCheckpointId(String),
    /// The state is in no checkpoint and not in the log; nothing was changed.
    #[error("the state of `{task}` cannot be recovered: neither a checkpoint nor the log holds it")]
    StateUnrecoverable {
        /// The task.
        task: String,
    },
    /// The task has no checkpoint of this name.
    #[error("there is no {id}")]
    CheckpointNotFound {
        /// Name of the checkpoint.
        id: String,
    },
    /// A file of the checkpoint is missing or damaged; nothing was restored.
    #[error("{id} cannot be restored: `{file}` is missing or not what was saved")]
    CheckpointCorrupt {
        /// The checkpoint.
        id: String,
        /// First file that is missing or damaged.
        file: String,
    },
}

/// Returns the holder's name for people: the worker or user on whose behalf a task is held.
fn holder_name(owner: &str) -> &str {
    owner.strip_prefix("lifecycle:").unwrap_or(owner)
}

/// Returns a sentence with the statuses that permit the step `method`.
fn needed(method: &str) -> String {
    let (statuses, done) = match method {
        "start" => ("pending", "started"),
        "complete" => ("running", "completed"),
        "fail" => ("running or waiting", "failed"),
        "fail resume" => ("running", "requeued"),
        "ask" => ("running", "made to wait for an approval"),
        "approve" => ("waiting", "approved"),
        "deny" => ("waiting", "denied"),
        "cancel" => ("pending, running or waiting", "cancelled"),
        "delete" => ("completed, failed or cancelled", "deleted"),
        "resume" => ("failed or cancelled", "resumed"),
        "resume start" => ("pending, failed or cancelled", "resumed for an agent"),
        other => return format!("it cannot take the step `{other}`"),
    };
    format!("only a task that is {statuses} can be {done}")
}

impl From<InvalidId> for TaskError {
    fn from(InvalidId { text, reason, .. }: InvalidId) -> Self {
        Self::InvalidTaskId { id: text, reason }
    }
}

impl TaskError {
    /// Returns the code, on which scripts may rely (TASK-12).
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::ResourceLocked { .. } => "RESOURCE_LOCKED",
            Self::LockNotHeld { .. } => "LOCK_NOT_HELD",
            Self::LockTimeout { .. } => "LOCK_TIMEOUT",
            Self::StaleToken { .. } => "STALE_TOKEN",
            Self::VersionConflict { .. } => "VERSION_CONFLICT",
            Self::LockOrder { .. } => "LOCK_ORDER",
            Self::InvalidArgument(_) => "INVALID_ARGUMENT",
            Self::BatchUnlockFailed { .. } => "BATCH_UNLOCK_FAILED",
            Self::LockBackendUnavailable(_) => "LOCK_BACKEND_UNAVAILABLE",
            Self::TriesUsedUp { last, .. } => last.code(),
            Self::RegistryNotInitialized(_) | Self::RegistryUnusable(_) => "REGISTRY_NOT_INITIALIZED",
            Self::InvalidTaskId { .. } => "INVALID_TASK_ID",
            Self::TaskNotFound(_) => "TASK_NOT_FOUND",
            Self::TaskCreateFailed { .. } => "TASK_CREATE_FAILED",
            Self::FolderTaken { .. } => "FOLDER_TAKEN",
            Self::FilesElsewhere { .. } => "FILES_ELSEWHERE",
            Self::TaskUpdateFailed { .. } => "TASK_UPDATE_FAILED",
            Self::TaskDeleteFailed { .. } => "TASK_DELETE_FAILED",
            Self::TaskBulkInsertFailed(_) => "TASK_BULK_INSERT_FAILED",
            Self::InvalidTransition { .. } => "INVALID_TRANSITION",
            Self::BudgetSpent { .. } => "BUDGET_SPENT",
            Self::HookVeto { .. } => "HOOK_VETO",
            Self::HookTimeout { .. } => "HOOK_TIMEOUT",
            Self::StateSaveFailed(_) => "STATE_SAVE_FAILED",
            Self::StateLoadFailed(_) => "STATE_LOAD_FAILED",
            Self::StateValidationFailed(_) => "STATE_VALIDATION_FAILED",
            Self::InvalidCheckpointId(_) => "INVALID_CHECKPOINT_ID",
            Self::StateUnrecoverable { .. } => "STATE_UNRECOVERABLE",
            Self::CheckpointNotFound { .. } => "CHECKPOINT_NOT_FOUND",
            Self::CheckpointCorrupt { .. } => "CHECKPOINT_CORRUPT",
        }
    }
}
