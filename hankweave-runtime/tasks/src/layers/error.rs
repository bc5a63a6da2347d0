//! Errors of a task's files.

use hankweave_runtime::world::disk::IoError;

use crate::model::TaskError;

/// Reason why an operation failed. The earlier files are unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayerError {
    /// The files have a problem, or the change is not allowed.
    #[error(transparent)]
    Task(#[from] TaskError),
    /// The disk could not write.
    #[error("the files of the task cannot be written")]
    Save(#[source] IoError),
    /// The disk could not read.
    #[error("the files of the task cannot be read")]
    Load(#[source] IoError),
}

impl LayerError {
    /// Returns the code, on which scripts may rely (TASK-12).
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Task(error) => error.code(),
            Self::Save(_) => "STATE_SAVE_FAILED",
            Self::Load(_) => "STATE_LOAD_FAILED",
        }
    }
}
