//! Target of a rollback as the user names it, and the cause of the rollback for the log of operations (STATE-66).

use hankweave_core::document::{Operation, OperationKind};
use hankweave_core::id::CodonId;
use hankweave_core::thread::CodonPoint;

/// Target of a rollback. Callers match all variants, in order to print the command that asks for the rollback.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RollbackTarget {
    /// The checkpoint whose SHA begins like this.
    Checkpoint(String),
    /// A point in the life of a codon.
    Codon(CodonId, CodonPoint),
    /// The newest codon that completed, or the nearest point for which a checkpoint exists.
    LastSuccess,
    /// Position before the newest operation that is not undone (STATE-67).
    Undo,
    /// Position before the rollback with this id, which must be the newest operation; only a run without a codon may have followed.
    UndoOf(String),
    /// Position after the operation whose id begins with this text.
    Operation(String),
}

impl RollbackTarget {
    /// Returns the command that asks for this rollback.
    fn command(&self) -> String {
        match self {
            Self::Checkpoint(prefix) => format!("rollback --to {prefix}"),
            Self::Codon(id, _) => format!("rollback --codon {id}"),
            Self::LastSuccess => "rollback --last-success".to_owned(),
            Self::Undo | Self::UndoOf(_) => "undo".to_owned(),
            Self::Operation(prefix) => format!("op restore {prefix}"),
        }
    }

    /// Returns the cause for the log of operations; `undoes` is the operation that an undo reverses.
    pub(super) fn cause(&self, undoes: Option<String>) -> OperationCause {
        OperationCause {
            kind: self.kind(),
            command: self.command(),
            undoes,
        }
    }

    const fn kind(&self) -> OperationKind {
        match self {
            Self::Checkpoint(_) | Self::Codon(..) | Self::LastSuccess => OperationKind::Rollback,
            Self::Undo | Self::UndoOf(_) => OperationKind::Undo,
            Self::Operation(_) => OperationKind::Restore,
        }
    }
}

/// Cause of a rollback, for the log of operations.
pub(super) struct OperationCause {
    pub(super) kind: OperationKind,
    /// Command of the user, or [`Operation::BY_A_RUN`].
    pub(super) command: String,
    /// The operation that is undone, if this is an undo.
    pub(super) undoes: Option<String>,
}

impl OperationCause {
    /// Whether a run rolls back by itself, without a command of the user.
    pub(super) fn is_of_a_run(&self) -> bool {
        self.command == Operation::BY_A_RUN
    }

    /// Returns the cause of a run that starts at the last success.
    pub(super) fn of_a_run() -> Self {
        Self {
            kind: OperationKind::Rollback,
            command: Operation::BY_A_RUN.to_owned(),
            undoes: None,
        }
    }
}
