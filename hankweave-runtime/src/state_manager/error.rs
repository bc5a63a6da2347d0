//! Errors of the state manager: why an event was not recorded, why the disk has failed, and why no state could be loaded.

use std::sync::Arc;

use hankweave_core::state::{RecoverError, Rejected};

use crate::store::StateFileError;
use crate::world::disk::IoError;

/// Why an event was not recorded.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum TransitionError {
    /// The reducer rejected the event: a bug in the caller. The state is unchanged, and later events are not
    /// affected.
    #[error(transparent)]
    Rejected(Rejected),
    /// The event cannot be written as JSON; the state is unchanged.
    #[error("the event cannot be written as JSON")]
    NotText(#[source] Arc<serde_json::Error>),
    /// The event could not be written to the disk; the manager is degraded and accepts nothing more.
    #[error("the event could not be made durable")]
    NotDurable(#[source] Arc<PersistenceError>),
    /// The state manager has stopped.
    #[error("the state manager has stopped")]
    Stopped,
}

/// Why the state manager is degraded: it accepts no more events, because the disk has failed (P5).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PersistenceError {
    /// An event could not be written to the log.
    #[error("failed to append to state.log")]
    Log(#[source] std::io::Error),
    /// A state file could not be written.
    #[error("failed to save the state")]
    Files(#[source] StateFileError),
    /// An event could not be written to the journal.
    #[error("failed to write the journal")]
    Journal(#[source] IoError),
    /// The last save did not end in time.
    #[error("the last save did not end within {limit_seconds} seconds")]
    TimedOut {
        /// The time that it had.
        limit_seconds: u64,
    },
}

/// Why there is no state to start with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A state file could not be read or repaired.
    #[error("failed to load the state")]
    Files(#[source] StateFileError),
    /// The journal could not be read, or events that it lacks could not be added.
    #[error("failed to complete the journal")]
    Journal(#[source] IoError),
    /// The mark of the first snapshot, a line that identifies it, could not be written to the log.
    #[error("failed to append to state.log")]
    Log(#[source] std::io::Error),
    /// Another version of hankweave wrote a state file, and this one does not read it (D4). Nothing was
    /// changed.
    #[error("the state is of schema version {version}, which this version of hankweave does not read")]
    Version {
        /// The version in the file.
        version: u64,
    },
    /// Recorded history cannot be used, and the user asked to stop rather than to start over. Nothing was
    /// changed.
    #[error(transparent)]
    History(RecoverError),
}

#[cfg(test)]
mod tests {
    use hankweave_core::codon::CodonStatus;

    use super::*;

    // covers: P3
    #[test]
    fn a_rejected_event_says_which_transition_is_invalid() {
        let rejected = Rejected::InvalidTransition {
            from: CodonStatus::Completed,
            to: CodonStatus::Running,
        };
        let error = TransitionError::Rejected(rejected);
        assert_eq!(error.to_string(), "Invalid transition from completed to running");
    }
}
