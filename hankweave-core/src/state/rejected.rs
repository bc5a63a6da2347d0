//! The reasons for which the reducer refuses an event.

use crate::codon::{CodonExecution, CodonStatus};
use crate::document::RunStatus;
use crate::event::MetadataError;
use crate::id::RunId;

/// Why an event was refused; the document is as it was.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejected {
    /// The table has no such edge, or the codon is not in the state that the event names.
    #[error("Invalid transition from {from} to {to}")]
    InvalidTransition {
        /// The state that the codon is in.
        from: CodonStatus,
        /// The state that was to be entered.
        to: CodonStatus,
    },
    /// The edge exists and the metadata do not satisfy it.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// The event is about a run or a codon that does not exist.
    #[error("{what} `{id}` does not exist")]
    NotFound {
        /// "run" or "codon".
        what: &'static str,
        /// The id that names nothing.
        id: String,
    },
    /// The event contradicts what is recorded.
    #[error("{0}")]
    Conflict(String),
}

impl Rejected {
    /// The kind as `state apply` prints it.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::InvalidTransition { .. } => "invalid_transition",
            Self::Metadata(_) => "metadata",
            Self::NotFound { .. } => "not_found",
            Self::Conflict(_) => "conflict",
        }
    }

    pub(super) fn not_found(what: &'static str, id: &str) -> Self {
        Self::NotFound {
            what,
            id: id.to_owned(),
        }
    }

    /// The metadata names that are missing or invalid.
    #[must_use]
    pub fn fields(&self) -> Vec<&'static str> {
        match self {
            Self::Metadata(error) => error.missing.iter().chain(&error.invalid).copied().collect(),
            Self::InvalidTransition { .. } | Self::NotFound { .. } | Self::Conflict(_) => Vec::new(),
        }
    }
}

pub(super) fn already_ended(id: &RunId, status: RunStatus) -> Rejected {
    Rejected::Conflict(format!("run `{id}` has already ended: {status}"))
}

pub(super) fn still_open(codon: &CodonExecution) -> Rejected {
    let (id, status) = (codon.codon_id(), codon.status());
    Rejected::Conflict(format!("codon `{id}` is still {status}"))
}

pub(super) fn not_working(codon: &CodonExecution, what: &str) -> Rejected {
    let (id, status) = (codon.codon_id(), codon.status());
    Rejected::Conflict(format!("codon `{id}` is {status} and takes no {what}"))
}
