//! What took the files back, as the record keeps it (STATE-66).

use serde::{Deserialize, Serialize};

use super::ContinuationSource;
use crate::id::RunId;
use crate::machine::Extra;
use crate::shape::{Shape, leaves};
use crate::time::Timestamp;

/// Somebody took the files back, and the thread with them. Runs are operations too, and tell of themselves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Shape)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    /// Its name: digits 0-9 and a-f.
    pub id: String,
    /// What sort of operation it is.
    pub kind: OperationKind,
    /// What asked for it, in the words of the command line.
    pub command: String,
    /// When it began.
    pub at: Timestamp,
    /// The newest run at that time.
    pub behind: RunId,
    /// Where the thread stood before it, with the checkpoint that has the files of that time.
    pub before: ContinuationSource,
    /// Where it stands after it.
    pub after: ContinuationSource,
    /// The operation that an undo took back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoes: Option<String>,
    /// How many files it changed.
    pub files: u64,
    /// Names that other versions wrote; kept as they are.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub extra: Extra,
}

/// The sorts of operations that take files back.
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
}

impl OperationKind {
    /// The word that stands in the document.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rollback => "rollback",
            Self::Undo => "undo",
            Self::Restore => "restore",
        }
    }
}

leaves!(OperationKind);
