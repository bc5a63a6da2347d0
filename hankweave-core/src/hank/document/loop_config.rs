//! Configuration of a loop: the codons that it repeats, and when it ends. The reader of hanks builds it from checked JSON.

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
    /// Condition that ends the loop.
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
    /// Number of iterations in a row without progress after which the run pauses: no file has changed, and the check prints what it printed before.
    /// 0 to 100; 0 means never. When absent, 2 for a loop that a check ends, and 0 for others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stalled_after: Option<u32>,
    /// Globs of the files that are moved to the folder `rigArchive` of the workspace when the loop has ended and the run continues.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub archive_on_success: Vec<String>,
}

impl LoopConfig {
    /// Returns the limit of iterations; `None` when only a full context ends the loop.
    #[must_use]
    pub const fn most_iterations(&self) -> Option<u32> {
        match self.terminate_on {
            TerminateOn::IterationLimit { limit } => Some(limit),
            TerminateOn::UntilCheckPasses {
                limit: Some(limit), ..
            } => Some(limit),
            TerminateOn::UntilCheckPasses { limit: None, .. } => Some(DEFAULT_CHECK_LIMIT),
            TerminateOn::ContextExceeded => None,
        }
    }

    /// Returns the number of iterations in a row without progress after which the run pauses; `None` when it never pauses for that.
    #[must_use]
    pub fn stall_limit(&self) -> Option<u32> {
        let default = match self.terminate_on {
            TerminateOn::UntilCheckPasses { .. } => DEFAULT_STALL_LIMIT,
            TerminateOn::IterationLimit { .. } | TerminateOn::ContextExceeded => 0,
        };
        Some(self.stalled_after.unwrap_or(default)).filter(|limit| *limit > 0)
    }
}

/// Stall limit of a loop that a check ends, unless the hank says otherwise.
const DEFAULT_STALL_LIMIT: u32 = 2;

/// Limit of iterations of a loop that a check ends, unless the hank says otherwise.
const DEFAULT_CHECK_LIMIT: u32 = 10;

/// Condition that ends a loop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum TerminateOn {
    /// After a fixed number of iterations.
    IterationLimit {
        /// Number of iterations, at least 1.
        limit: u32,
    },
    /// When the context of the agent is full.
    ContextExceeded,
    /// When a command passes, which runs at the end of each iteration.
    UntilCheckPasses {
        /// Command for the shell, not empty; it passes with the exit code 0.
        run: String,
        /// Limit of iterations, 1 to 100; 10 when absent. The loop has failed when its check has not passed by then.
        #[cfg_attr(feature = "schema", schemars(extend("default" = DEFAULT_CHECK_LIMIT)))]
        #[serde(skip_serializing_if = "Option::is_none")]
        limit: Option<u32>,
    },
}
