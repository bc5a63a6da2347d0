//! Records of rollbacks, undos, restores and cleanups (STATE-66, RUN-23).

use serde::{Deserialize, Serialize};

use super::ContinuationSource;
use crate::id::{CheckpointSha, RunId};
use crate::machine::Extra;
use crate::shape::{Shape, leaves};
use crate::time::Timestamp;

/// A rollback of the files and of the thread, an undo, a restore or a cleanup. Runs are operations too, and have records of their own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Shape)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    /// Its name: digits 0-9 and a-f.
    pub id: String,
    /// Kind of operation.
    pub kind: OperationKind,
    /// Command line that requested it.
    pub command: String,
    /// Time of its start.
    pub at: Timestamp,
    /// The newest run at that time.
    pub behind: RunId,
    /// Position of the thread before it, with the checkpoint of the files at that time.
    pub before: ContinuationSource,
    /// Position of the thread after it.
    pub after: ContinuationSource,
    /// The operation that an undo reverted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoes: Option<String>,
    /// How many files of the workspace it changed.
    pub files: u64,
    /// Items that a cleanup removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed: Option<Removed>,
    /// Names that other versions wrote; kept as they are.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub extra: Extra,
}

impl Operation {
    /// Value of `command` for a rollback that a run makes by itself.
    pub const BY_A_RUN: &'static str = "run";

    /// Returns whether this is a rollback or a restore that a user requested. Undos do not count, nor the rollbacks of a run by itself.
    #[must_use]
    pub fn is_rollback(&self) -> bool {
        matches!(self.kind, OperationKind::Rollback | OperationKind::Restore)
            && self.command != Self::BY_A_RUN
    }
}

/// Items that a cleanup removed. The runs stay in the document, with their cost.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, Shape)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Removed {
    /// The runs whose logs were removed, newest first.
    pub runs: Vec<RunId>,
    /// The checkpoints of these runs that nothing else needed; no rollback to them is possible.
    pub checkpoints: Vec<CheckpointSha>,
    /// How long the logs were, in bytes.
    pub bytes: u64,
    /// Names that other versions wrote; kept as they are.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub extra: Extra,
}

/// The sorts of operations other than runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum OperationKind {
    /// To a checkpoint.
    Rollback,
    /// To where things stood before the last operation.
    Undo,
    /// To where things stood after an operation.
    Restore,
    /// Removes what old runs have left; no file of the workspace changes.
    Cleanup,
}

impl OperationKind {
    /// Returns its word in the document.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rollback => "rollback",
            Self::Undo => "undo",
            Self::Restore => "restore",
            Self::Cleanup => "cleanup",
        }
    }
}

leaves!(OperationKind);
