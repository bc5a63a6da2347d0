//! Errors of a rollback, and whether files were changed before the error.

use hankweave_core::id::CheckpointSha;
use hankweave_core::thread::TargetError;
use hankweave_core::time::Timestamp;

use crate::checkpoint::{HistoryError, RestoreError};
use crate::rig::ArchiveError;
use crate::state_manager::TransitionError;

/// Why a rollback failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RollbackError {
    /// A codon is running; nothing was changed.
    #[error("a codon is running")]
    Running,
    /// Files are never restored under running processes (G9); nothing was changed.
    #[error("{count} processes of an earlier run still live, so its files cannot be taken back")]
    Survivors {
        /// How many.
        count: usize,
    },
    /// There is no such target; nothing was changed.
    #[error("cannot roll back to there")]
    Target(#[source] TargetError),
    /// A cleanup has removed the checkpoint of the target; nothing was changed.
    #[error(
        "checkpoint {} was removed by a cleanup (operation {operation}, {at}) and cannot be restored any more",
        sha.short()
    )]
    CleanedUp {
        /// The checkpoint.
        sha: CheckpointSha,
        /// The cleanup.
        operation: String,
        /// When it was.
        at: Timestamp,
    },
    /// No operation is left that could be undone; nothing was changed.
    #[error("there is no operation left to undo")]
    NothingToUndo,
    /// The operation to undo is not the newest one, is undone already, or was no rollback of files; nothing was changed.
    #[error("operation {0} is not the newest rollback, so it is not undone")]
    NotNewest(String),
    /// There is no such operation, or the record lacks the position where it ended; nothing was changed.
    #[error("no operation begins with `{0}`")]
    UnknownOperation(String),
    /// Several operations begin like this; nothing was changed.
    #[error("several operations begin with `{0}`")]
    AmbiguousOperation(String),
    /// No checkpoint of the thread exists; nothing was changed.
    #[error("no codon has a checkpoint that one could roll back to")]
    NoSuccess,
    /// The checkpoints cannot be read, so the targets are unknown; nothing was changed.
    #[error("failed to read the checkpoints")]
    History(#[source] HistoryError),
    /// The files could not be restored; the error states whether some were changed.
    #[error("failed to bring back the files")]
    Restore(#[source] RestoreError),
    /// The files could not be restored, and some may have been changed.
    #[error("failed to bring back all files; the replaced files are kept in checkpoint {}", safety.short())]
    Interrupted {
        /// The files as they were before the first change.
        safety: CheckpointSha,
        /// Cause.
        #[source]
        source: RestoreError,
    },
    /// A restore was interrupted, and its checkpoint cannot be read any more. A run that starts over at the first codon, or another
    /// rollback, abandons the restore.
    #[error(
        "the way back to checkpoint {} was interrupted and cannot be finished, because the checkpoint cannot be read",
        target.short()
    )]
    CutOff {
        /// The checkpoint.
        target: CheckpointSha,
        /// The files as they were before the first change.
        safety: Option<CheckpointSha>,
        /// Why the checkpoint cannot be read.
        #[source]
        source: Box<Self>,
    },
    /// The archive cannot be used; nothing was changed, unless the files were restored already.
    #[error("failed to bring files back from the archive")]
    Archive(#[source] ArchiveError),
    /// The rollback could not be recorded.
    #[error("failed to record the rollback")]
    Record(#[from] TransitionError),
}

/// Whether a checkpoint or its contents cannot be read; another attempt would fail as well.
pub(super) fn cannot_be_read(error: &RollbackError) -> bool {
    match error {
        RollbackError::History(_) => true,
        RollbackError::Restore(source) | RollbackError::Interrupted { source, .. } => {
            matches!(source, RestoreError::History(_) | RestoreError::Contents { .. })
        }
        _ => false,
    }
}

/// Whether the restore of a rollback failed before it changed any file.
pub(super) fn rollback_changed_nothing(error: &RollbackError) -> bool {
    matches!(error, RollbackError::Restore(error) if restore_changed_nothing(error))
}

/// Whether a restore with this error has changed no file.
pub(super) fn restore_changed_nothing(error: &RestoreError) -> bool {
    matches!(
        error,
        RestoreError::History(_)
            | RestoreError::Safety(_)
            | RestoreError::InTheWay { .. }
            | RestoreError::Repository { .. }
    )
}
