//! Limits of a codon, a loop or a hank (HANK-28, HANK-38).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::cost::Usd;

/// Limits of one codon; absent means unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct CodonBudget {
    /// Above 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_dollars: Option<Usd>,
    /// Above 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_time_seconds: Option<f64>,
    /// Per execution, at least 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
    /// Largest input plus output of one turn, at least 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_context_tokens: Option<u64>,
    /// Action at the limit; `complete` when absent.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "complete")))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_exceeded: Option<OnExceeded>,
}

/// Limits of a loop or of a hank, and how its children share them.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContainerBudget {
    /// Above 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_dollars: Option<Usd>,
    /// Above 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_time_seconds: Option<f64>,
    /// How dollars are shared; `shared` when absent.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "shared")))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocation: Option<Allocation>,
    /// Share of each direct child, by id: above 0, at most 1.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub shares: BTreeMap<String, f64>,
    /// Action at the limit; when absent, `pause` at the limit of the hank and `complete` at every
    /// other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_exceeded: Option<OnExceeded>,
}

/// How the children of a container share its dollars.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Allocation {
    /// First come, first served.
    Shared,
    /// Each child has its share; what it leaves goes to the others.
    Proportional,
    /// Each child has its share and nothing else.
    ProportionalStrict,
}

/// Action when a limit is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum OnExceeded {
    /// The codon counts as completed.
    Complete,
    /// The codon fails and is not tried again.
    Fail,
    /// The run pauses: it continues with this codon when the limit is raised.
    Pause,
}
