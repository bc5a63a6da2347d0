//! Parts of events about rigs and the archive: output of a rig, and outcomes of moving, removing and restoring files.

use serde::{Deserialize, Serialize};

/// Stream of a rig command's line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum RigStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A file that could not be moved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailedPath {
    /// The file, relative to the workspace.
    pub path: String,
    /// Why.
    pub error: String,
}

impl From<(String, String)> for FailedPath {
    fn from((path, error): (String, String)) -> Self {
        Self { path, error }
    }
}

/// A copy of a rig that could not be taken out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailedDirectory {
    /// Path, relative to the workspace.
    pub directory: String,
    /// Why.
    pub error: String,
}

/// Whether the copies of a rig were taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum CleanupStatus {
    /// It starts.
    Started,
    /// All of them were.
    Completed,
    /// None of them was.
    Failed,
    /// Some were.
    Partial,
}

/// Whether files came back from the archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum RestoreStatus {
    /// All of them.
    Completed,
    /// Some.
    Partial,
    /// None.
    Failed,
}
