//! One step of the execution plan.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::id::{CodonId, LoopId};
use crate::machine::Extra;

/// Where a codon stands inside a loop.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoopContext {
    /// The loop, as hank.json names it.
    pub loop_id: LoopId,
    /// The iteration, counted from 0.
    pub iteration: u32,
    /// The position in the loop's `codons`, counted from 0.
    pub codon_index_in_loop: u32,
}

/// One codon of the plan with the id under which it runs ("state model", section 8).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanEntry {
    /// The codon's configuration; never a loop.
    pub codon: PlannedCodon,
    /// The id of the execution, with an iteration suffix inside a loop.
    pub codon_id: CodonId,
    /// Present exactly when the codon belongs to a loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loop_context: Option<LoopContext>,
    /// Names that other versions wrote; kept as they are.
    #[serde(flatten)]
    pub extra: Extra,
}

/// A codon's configuration as it stood in hank.json when the plan was made, kept word for word.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PlannedCodon(Map<String, Value>);

impl PlannedCodon {
    /// Takes over the configuration object of one codon.
    #[must_use]
    pub fn new(configuration: Map<String, Value>) -> Self {
        Self(configuration)
    }

    /// The whole configuration.
    #[must_use]
    pub fn configuration(&self) -> &Map<String, Value> {
        &self.0
    }

    /// The `name` for people, if there is one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.0.get("name").and_then(Value::as_str)
    }

    /// Whether the codon resumes the conversation of the codon before it.
    #[must_use]
    pub fn continues_previous(&self) -> bool {
        self.0.get("continuationMode").and_then(Value::as_str) == Some("continue-previous")
    }
}
