//! When in the life of a codon a checkpoint is made.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::shape::{Named, Shape};

/// When in the life of a codon a checkpoint is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Named, Shape)]
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

impl fmt::Display for CheckpointType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
