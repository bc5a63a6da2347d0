//! Configuration of a sentinel's trigger, and of its execution: when it acts on the events that it has seen.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Trigger of a sentinel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum Trigger {
    /// Single events.
    Event {
        /// Types of events, or `*` for all of them; at least one.
        on: Vec<String>,
        /// All of them must be true.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        conditions: Vec<ConditionConfig>,
    },
    /// Several events, one after the other.
    Sequence {
        /// The events among which it looks.
        interest_filter: InterestFilter,
        /// One after the other, at least one.
        pattern: Vec<PatternStep>,
        /// How strictly.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        options: Option<SequenceOptions>,
    },
}

impl Trigger {
    /// Returns the types of events that the trigger looks at.
    #[must_use]
    pub fn on(&self) -> &[String] {
        match self {
            Self::Event { on, .. } => on,
            Self::Sequence { interest_filter, .. } => &interest_filter.on,
        }
    }

    /// Returns the name of this kind of trigger in events.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Event { .. } => "event",
            Self::Sequence { .. } => "sequence",
        }
    }
}

/// The events among which a sequence is looked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct InterestFilter {
    /// Types of events, or `*` for all of them; at least one.
    pub on: Vec<String>,
}

/// One event of a sequence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct PatternStep {
    /// Its type, or `*`.
    #[serde(rename = "type")]
    pub kind: String,
    /// All of them must be true.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<ConditionConfig>,
}

/// How strictly a sequence is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SequenceOptions {
    /// Whether nothing else of interest may lie between the steps; true when absent.
    #[cfg_attr(feature = "schema", schemars(extend("default" = true)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consecutive: Option<bool>,
}

/// A comparison with a value in the data of an event; false where the event has none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ConditionConfig {
    /// How the values are compared.
    pub operator: Operator,
    /// Path of the value in the event's data: names joined by dots.
    pub path: String,
    /// Value to compare with.
    pub value: Value,
}

/// How two values are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Operator {
    /// They are equal.
    Equals,
    /// They are not.
    NotEquals,
    /// It is one of a list.
    In,
    /// It is none of a list.
    NotIn,
    /// A text with this in it, or a list that has this.
    Contains,
    /// A text that matches a regular expression.
    Matches,
    /// A greater number.
    GreaterThan,
    /// A smaller number.
    LessThan,
}

/// When a sentinel acts on what it has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "strategy", rename_all = "camelCase", deny_unknown_fields)]
pub enum SentinelExecution {
    /// At once.
    Immediate,
    /// Once nothing more has come for a while.
    Debounce {
        /// The while, 1 to 300000.
        milliseconds: u64,
    },
    /// Once for every `threshold` events.
    Count {
        /// Number of events, 1 to 1000.
        threshold: u64,
    },
    /// At the end of each window of time, counted from the first.
    TimeWindow {
        /// The length of a window, 1 to 3600000.
        milliseconds: u64,
    },
}

impl SentinelExecution {
    /// Returns the name of this strategy in events.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Immediate => "immediate",
            Self::Debounce { .. } => "debounce",
            Self::Count { .. } => "count",
            Self::TimeWindow { .. } => "timeWindow",
        }
    }
}
