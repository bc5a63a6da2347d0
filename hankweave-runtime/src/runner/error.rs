//! Why a run could not continue.

use std::sync::Arc;

use hankweave_core::budget::CeilingUse;
use hankweave_core::id::CodonId;
use hankweave_core::plan::ExpandError;

use super::rollback::RollbackError;
use crate::checkpoint::CheckpointError;
use crate::state_manager::{PersistenceError, TransitionError};

/// A run that could not continue for reasons other than its codons.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A step could not be recorded.
    #[error("failed to record what happened")]
    Record(#[from] TransitionError),
    /// The last save failed.
    #[error("failed to save the state at the end")]
    Save(#[source] Arc<PersistenceError>),
    /// The first checkpoint could not be made.
    #[error("failed to make the first checkpoint")]
    Checkpoint(#[source] CheckpointError),
    /// The files could not be rolled back, or the position to continue from is unknown.
    #[error(transparent)]
    Rollback(#[from] RollbackError),
    /// hank.json was changed so that it no longer fits the recorded plan.
    #[error("hank.json no longer fits the recorded plan")]
    ChangedHank(#[source] ExpandError),
    /// The total budget leaves nothing for the codon that would run again: no file was rolled back for it.
    #[error("{codon} cannot start, so nothing was changed: the total budget is used up: {budget}")]
    NothingLeft {
        /// Codon that would start.
        codon: CodonId,
        /// Budget, and what was used of it.
        budget: CeilingUse,
    },
    /// The newest run continues one that is not in the document.
    #[error("the newest run continues a run that state.json does not hold, so what comes next is unknown")]
    MissingParent,
    /// A bug of ours.
    #[error("a codon was left open")]
    CodonLeftOpen,
}
