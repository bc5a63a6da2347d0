//! When in the life of a codon a checkpoint is made.

use std::fmt;

use crate::shape::Shape;
use serde::{Deserialize, Serialize};

/// When in the life of a codon a checkpoint is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Shape)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CheckpointType {
    /// After rig set-up.
    RigSetup,
    /// After success.
    Completed,
    /// After a failure.
    Error,
    /// After a skip.
    Skipped,
}

impl CheckpointType {
    /// The word that stands in files and messages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RigSetup => "rig-setup",
            Self::Completed => "completed",
            Self::Error => "error",
            Self::Skipped => "skipped",
        }
    }
}

impl fmt::Display for CheckpointType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
