//! Where somebody goes back to, and what the log of operations tells of that (STATE-66).

use hankweave_core::document::OperationKind;
use hankweave_core::id::CodonId;
use hankweave_core::thread::CodonPoint;

/// Where to roll back to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RollbackTarget {
    /// The checkpoint whose SHA begins like this.
    Checkpoint(String),
    /// A point in the life of a codon.
    Codon(CodonId, CodonPoint),
    /// The newest codon that completed, or as near as the checkpoints allow.
    LastSuccess,
    /// Where things stood before the newest operation that is not undone (STATE-67).
    Undo,
    /// Where things stood after the operation whose name begins like this.
    Operation(String),
}

impl RollbackTarget {
    /// How it is asked for on the command line.
    fn command(&self) -> String {
        match self {
            Self::Checkpoint(prefix) => format!("rollback --to {prefix}"),
            Self::Codon(id, _) => format!("rollback --codon {id}"),
            Self::LastSuccess => "rollback --last-success".to_owned(),
            Self::Undo => "undo".to_owned(),
            Self::Operation(prefix) => format!("op restore {prefix}"),
        }
    }

    /// What the log of operations tells; `undoes` is what an undo takes back.
    pub(super) fn cause(&self, undoes: Option<String>) -> Cause {
        Cause {
            kind: self.kind(),
            command: self.command(),
            undoes,
        }
    }

    const fn kind(&self) -> OperationKind {
        match self {
            Self::Checkpoint(_) | Self::Codon(..) | Self::LastSuccess => OperationKind::Rollback,
            Self::Undo => OperationKind::Undo,
            Self::Operation(_) => OperationKind::Restore,
        }
    }
}

/// Who goes back, for the log of operations.
pub(super) struct Cause {
    pub(super) kind: OperationKind,
    pub(super) command: String,
    /// The operation that an undo takes back.
    pub(super) undoes: Option<String>,
}

impl Cause {
    /// Of a run that begins at the last success.
    pub(super) fn of_a_run() -> Self {
        Self {
            kind: OperationKind::Rollback,
            command: "run".to_owned(),
            undoes: None,
        }
    }
}
