//! What events about sentinels say.

use serde::{Deserialize, Serialize};

/// Where a sentinel is configured.
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
    /// What it was asked.
    pub input: u64,
    /// What it answered.
    pub output: u64,
}
