//! Parts of events about sentinels.

use serde::{Deserialize, Serialize};

/// Origin of a sentinel's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum SentinelOrigin {
    /// In a file of its own.
    File,
    /// In hank.json.
    Inline,
}

/// The tokens of one answer of a sentinel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SentinelTokens {
    /// Tokens of the question.
    pub input: u64,
    /// Tokens of the answer.
    pub output: u64,
}
