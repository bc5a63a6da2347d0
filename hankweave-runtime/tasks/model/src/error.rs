//! What can go wrong, each with a code that never changes.

/// Why something was refused; nothing has changed then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TaskError {
    /// Another holder lives whose mode excludes this one.
    #[error("`{resource}` is held by {existing_owner}")]
    ResourceLocked {
        /// What was asked for.
        resource: String,
        /// Who has it.
        existing_owner: String,
    },
    /// Only others hold it.
    #[error("`{resource}` is held by others only")]
    LockNotHeld {
        /// What was to be released.
        resource: String,
    },
    /// The lock is over, so its holder must stop writing.
    #[error("the lock on `{resource}` is over")]
    LockTimeout {
        /// What it was on.
        resource: String,
    },
    /// The token belongs to no living holder, or a later one has written.
    #[error("token {token} for `{resource}` is stale")]
    StaleToken {
        /// What was to be written.
        resource: String,
        /// What was shown.
        token: u64,
    },
    /// Somebody else has committed in between; read again.
    #[error("`{resource}` is at version {version}")]
    VersionConflict {
        /// What was to be written.
        resource: String,
        /// Its version now.
        version: u64,
    },
    /// The holder has one that stands behind it.
    #[error("`{resource}` stands before `{held}`, which is held already; ask for both at once")]
    LockOrder {
        /// What was asked for.
        resource: String,
        /// What the holder has.
        held: String,
    },
    /// An argument that makes no sense.
    #[error("{0}")]
    InvalidArgument(&'static str),
    /// The state cannot be written as canonical JSON.
    #[error("the state cannot be saved: {0}")]
    StateSaveFailed(&'static str),
    /// The state cannot be read.
    #[error("the state cannot be loaded: {0}")]
    StateLoadFailed(String),
    /// The state is not what was saved.
    #[error("the state is not what was saved: {0}")]
    StateValidationFailed(&'static str),
    /// No checkpoint can be called so.
    #[error("`{0}` is no name of a checkpoint; one is `checkpoint_` and up to 16 digits")]
    InvalidCheckpointId(String),
    /// Something of it is missing or spoiled; nothing was restored.
    #[error("{id} cannot be restored: `{file}` is missing or not what was saved")]
    CheckpointCorrupt {
        /// The checkpoint.
        id: String,
        /// The first file that is wrong.
        file: String,
    },
}

impl TaskError {
    /// The code that scripts may rely on (TASK-12).
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
            Self::StateSaveFailed(_) => "STATE_SAVE_FAILED",
            Self::StateLoadFailed(_) => "STATE_LOAD_FAILED",
            Self::StateValidationFailed(_) => "STATE_VALIDATION_FAILED",
            Self::InvalidCheckpointId(_) => "INVALID_CHECKPOINT_ID",
            Self::CheckpointCorrupt { .. } => "CHECKPOINT_CORRUPT",
        }
    }
}
