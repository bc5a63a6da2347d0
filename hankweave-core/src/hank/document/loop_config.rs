//! A loop as it is configured.

use serde::Serialize;

use super::codon::CodonConfig;
use crate::hank::budget::ContainerBudget;
use crate::id::LoopId;

/// Codons that are repeated.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct LoopConfig {
    /// Unique in the whole hank.
    pub id: LoopId,
    /// Name for people, not empty.
    pub name: String,
    /// Shown to people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// When the loop ends.
    pub terminate_on: TerminateOn,
    /// The codons of one iteration, at least one.
    #[cfg_attr(
        feature = "schema",
        schemars(schema_with = "crate::hank::schema::inner_codons")
    )]
    pub codons: Vec<CodonConfig>,
    /// Limits of all iterations together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<ContainerBudget>,
    /// Iterations in a row that change no file and whose check prints what it printed before, after which the loop is stuck and the run pauses; 0
    /// to 100, and 0 means never. 2 when absent where a check ends the loop, else 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stalled_after: Option<u32>,
    /// Globs of the files that are moved away when the loop has ended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub archive_on_success: Vec<String>,
}

impl LoopConfig {
    /// How often it goes round at most; `None` when only the context ends it.
    #[must_use]
    pub const fn most_iterations(&self) -> Option<u32> {
        match self.terminate_on {
            TerminateOn::IterationLimit { limit } => Some(limit),
            TerminateOn::UntilCheckPasses {
                limit: Some(limit), ..
            } => Some(limit),
            TerminateOn::UntilCheckPasses { limit: None, .. } => Some(CHECKED_ITERATIONS),
            TerminateOn::ContextExceeded => None,
        }
    }

    /// Returns the number of iterations that repeat themselves after which it is stuck; `None` when that is never looked at.
    #[must_use]
    pub fn stalled_after(&self) -> Option<u32> {
        let default = match self.terminate_on {
            TerminateOn::UntilCheckPasses { .. } => STALLED_AFTER,
            TerminateOn::IterationLimit { .. } | TerminateOn::ContextExceeded => 0,
        };
        Some(self.stalled_after.unwrap_or(default)).filter(|most| *most > 0)
    }
}

/// Number of repeated iterations after which a loop with a check is stuck, unless the hank sets another one.
const STALLED_AFTER: u32 = 2;

/// Largest number of iterations of a loop until its check passes, unless the hank sets another one.
const CHECKED_ITERATIONS: u32 = 10;

/// When a loop ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum TerminateOn {
    /// After a fixed number of iterations.
    IterationLimit {
        /// How many iterations there are, at least 1.
        limit: u32,
    },
    /// When the context of the agent is full.
    ContextExceeded,
    /// When a command passes, which runs at the end of each iteration.
    UntilCheckPasses {
        /// Text for the shell, not empty; it passes with the exit code 0.
        run: String,
        /// How many iterations there are at most, 1 to 100; then the loop has failed.
        #[cfg_attr(feature = "schema", schemars(extend("default" = 10)))]
        #[serde(skip_serializing_if = "Option::is_none")]
        limit: Option<u32>,
    },
}
