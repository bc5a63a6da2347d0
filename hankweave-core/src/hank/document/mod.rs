//! The typed hank: the content of a hank.json, after every value has been read and checked.

mod background;
mod codon;
mod fallback;
mod inherited;
mod loop_config;
mod positions;
mod prompt;
mod requires;
mod rig;

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use super::agent::AgentChoice;
use super::budget::ContainerBudget;
use super::problem::SourceMap;
use crate::agent::AgentOptions;
use positions::HankPositions;

pub use background::{MAX_BACKGROUND_SECONDS, OnBackgroundCut};
pub use codon::{
    ApprovalQuestion, Check, CodonConfig, ContinuationMode, OnFailure, RetryConfig, SentinelEntry,
    SentinelSource,
};
#[cfg(feature = "hanks")]
pub(super) use fallback::WAIT;
pub use fallback::{Fallback, FallbackAgent, agent_words, fallback_list};
pub use loop_config::{LoopConfig, TerminateOn};
pub use prompt::PromptSource;
pub use requires::Requires;
pub use rig::{CopyStep, OutputItem, RigAction, RigCommand, RigItem, WorkingDirectory};

/// A whole hank.json.
///
/// Serialising it gives a hank.json again, without comments and with defaults left out.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Hank {
    /// A hint for editors; hankweave does not read it.
    #[serde(rename = "$schema", skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// Name and version for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meta: Option<HankMeta>,
    /// Settings that win over the runtime's own file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overrides: Option<Overrides>,
    /// Requirements of a run before it starts.
    #[serde(skip_serializing_if = "Requirements::is_empty")]
    pub requirements: Requirements,
    /// Put before every codon's own system prompt (`globalSystemPromptFile` or `globalSystemPromptText`).
    #[serde(flatten, serialize_with = "prompt::global_system_prompt")]
    #[cfg_attr(
        feature = "schema",
        schemars(schema_with = "super::schema::global_system_prompt")
    )]
    pub global_system_prompt: Option<PromptSource>,
    /// Codons and loops in the order they are executed, at least one (`hank`).
    #[serde(rename = "hank")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "super::schema::items"))]
    pub items: Vec<HankItem>,
    /// The positions of the values in the text; empty for a hank that was not read from text.
    #[serde(skip)]
    pub places: SourceMap,
    /// Positions of its codons and loops when one was first looked up.
    #[serde(skip)]
    pub(crate) positions: HankPositions,
}

impl Hank {
    /// Returns all codons in the order they are written, including those inside loops.
    pub fn codons(&self) -> impl Iterator<Item = &CodonConfig> {
        self.items.iter().flat_map(HankItem::codons)
    }

    /// Returns all codons with their JSON paths, such as `hank[1].codons[0]`.
    pub fn located_codons(&self) -> impl Iterator<Item = (String, &CodonConfig)> {
        let items = self.items.iter().enumerate();
        items.flat_map(|(index, item)| item.located_codons(index))
    }

    /// All codons in the order they are written, to be changed.
    pub fn codons_mut(&mut self) -> impl Iterator<Item = &mut CodonConfig> {
        self.items.iter_mut().flat_map(|item| match item {
            HankItem::Codon(codon) => std::slice::from_mut(codon),
            HankItem::Loop(found) => found.codons.as_mut_slice(),
        })
    }

    /// Sets the schema of each codon whose `result` names a file; `schemas` has them by the path of the file.
    pub fn set_result_schemas(&mut self, schemas: &BTreeMap<String, Map<String, Value>>) {
        for asked in self.codons_mut().filter_map(|codon| codon.result.as_mut()) {
            let schema = asked.file.as_ref().and_then(|file| schemas.get(file));
            if let Some(schema) = schema {
                asked.schema.clone_from(schema);
            }
        }
    }

    /// Returns the budget of the whole hank.
    #[must_use]
    pub fn budget(&self) -> Option<&ContainerBudget> {
        self.overrides.as_ref()?.budget.as_ref()
    }
}

/// Name and version of a hank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct HankMeta {
    /// Not empty.
    pub name: String,
    /// Not empty; any scheme.
    pub version: String,
    /// Free text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Free text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
}

/// Settings of the runtime in a hank.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Overrides {
    /// Who runs every codon.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentChoice>,
    /// The model of every codon.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Milliseconds that hashing the data may take, above 0.
    #[cfg_attr(feature = "schema", schemars(extend("default" = 5000)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_hash_time_limit: Option<u64>,
    /// MiB up to which a file belongs to checkpoints, 1 to 1048576.
    #[cfg_attr(feature = "schema", schemars(extend("default" = 100)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpointed_file_limit_mb: Option<u64>,
    /// Settings for all sentinels, checked for shape only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sentinel: Option<Map<String, Value>>,
    /// Seconds an agent may be silent, 1 to 1800, for codons without a limit of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shim_idle_timeout: Option<u64>,
    /// Seconds after which work is ended that an agent left running after its answer, 1 to 86400, for codons
    /// without a figure of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settle_seconds: Option<u64>,
    /// Seconds that an agent is waited for that waits for background work, or whose background work is busy, 1 to 86400, for codons without
    /// a figure of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_background_seconds: Option<u64>,
    /// Action when background work is cut off that an agent was waiting for, for codons without one of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_background_cut: Option<OnBackgroundCut>,
    /// Agents and models that take codons over which name none of their own, in their order.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "super::schema::fallback"))]
    pub fallback: Option<Vec<Fallback>>,
    /// Effects that codons must have that require nothing of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "super::schema::requires"))]
    pub requires: Option<Requires>,
    /// How agents work, for codons without options of their own.
    #[serde(flatten)]
    pub agent_options: AgentOptions,
    /// Limits of all codons together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<ContainerBudget>,
}

/// Requirements of a run before it starts; all names are trimmed and not empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Requirements {
    /// Environment variables that must be set and not empty, as `X` or as `HANKWEAVE_X`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Programs that must be found on PATH; bare names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
}

impl Requirements {
    /// Whether nothing is required.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.env.is_empty() && self.tools.is_empty()
    }
}

/// One entry of the list `hank`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum HankItem {
    /// One agent run.
    Codon(CodonConfig),
    /// Codons that are repeated.
    Loop(LoopConfig),
}

impl HankItem {
    /// Returns the codons of the item with their JSON paths; `index` is the item's position in the hank.
    pub(super) fn located_codons(&self, index: usize) -> impl Iterator<Item = (String, &CodonConfig)> {
        let codons = self.codons().iter().enumerate();
        codons.map(move |(inner, codon)| match self {
            Self::Codon(_) => (format!("hank[{index}]"), codon),
            Self::Loop(_) => (format!("hank[{index}].codons[{inner}]"), codon),
        })
    }

    /// The loop, if it is one.
    #[must_use]
    pub fn as_loop(&self) -> Option<&LoopConfig> {
        match self {
            Self::Loop(found) => Some(found),
            Self::Codon(_) => None,
        }
    }

    /// The codon itself, or the codons of the loop, in order.
    #[must_use]
    pub fn codons(&self) -> &[CodonConfig] {
        match self {
            Self::Codon(codon) => std::slice::from_ref(codon),
            Self::Loop(item) => &item.codons,
        }
    }

    /// Returns the configured id; the ids of codons and loops are in one namespace.
    #[must_use]
    pub fn id(&self) -> &str {
        match self {
            Self::Codon(codon) => codon.id.as_str(),
            Self::Loop(item) => item.id.as_str(),
        }
    }
}
