//! Problems of a document: reasons not to use it, and warnings that never block (STATE-33, STATE-34).

use std::fmt;

use serde::Serialize;

use crate::shape::Named;

/// The kinds of problem that keep a document from being used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Named)]
#[serde(rename_all = "snake_case")]
pub enum ProblemKind {
    /// Not JSON, or not the shape of a state document.
    CorruptedData,
    /// `currentRunId` names no run.
    MissingRun,
    /// A codon does not have the fields of its status.
    InvalidCodon,
}

/// The kinds of warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Named)]
#[serde(rename_all = "snake_case")]
pub enum WarningKind {
    /// A folder under `runs/` belongs to no run.
    OrphanedFolder,
    /// A commit that the document names does not exist.
    MissingCheckpoint,
    /// A recorded sum is not the sum of its parts.
    CostMismatch,
    /// A run continues one that the document does not hold.
    MissingRun,
}

/// One reason why a document cannot be used. As JSON: `{type, message, path}`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize)]
#[error("{kind} at {path}: {message}")]
pub struct StateProblem {
    /// The kind; JSON `type`.
    #[serde(rename = "type")]
    pub kind: ProblemKind,
    /// Problem at `path`, for people. If the text is no JSON, the message begins with line and column, both counted from 1.
    pub message: String,
    /// JSON path such as `runs[0].codons[2].completionCheckpoint`, or `$` for the document.
    pub path: String,
}

impl StateProblem {
    /// Returns a problem of the document as a whole.
    pub(crate) fn corrupted(message: impl Into<String>) -> Self {
        Self {
            kind: ProblemKind::CorruptedData,
            path: "$".to_owned(),
            message: message.into(),
        }
    }
}

/// One fact about a document that a person should know. As JSON: `{type, message, path}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StateWarning {
    /// The kind; JSON `type`.
    #[serde(rename = "type")]
    pub kind: WarningKind,
    /// Oddity at `path`, for people.
    pub message: String,
    /// JSON path, or the folder relative to `.hankweave`.
    pub path: String,
}

impl fmt::Display for ProblemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for WarningKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for StateWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: {}", self.kind, self.path, self.message)
    }
}
