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
}

/// How often a loop goes round until its check passes, unless the hank says otherwise.
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
