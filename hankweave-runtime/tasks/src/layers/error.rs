//! Why a file of a task could not be read or written.

use hankweave_runtime::world::disk::IoError;

use crate::model::TaskError;

/// Why something was not done; what was there before is there still.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayerError {
    /// The files have a problem, or the change is not allowed.
    #[error(transparent)]
    Task(#[from] TaskError),
    /// The disk did not take it.
    #[error("the files of the task cannot be written")]
    Save(#[source] IoError),
    /// The disk did not give it.
    #[error("the files of the task cannot be read")]
    Load(#[source] IoError),
}

impl LayerError {
    /// The code that scripts may rely on (TASK-12).
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Task(error) => error.code(),
            Self::Save(_) => "STATE_SAVE_FAILED",
            Self::Load(_) => "STATE_LOAD_FAILED",
        }
    }
}
