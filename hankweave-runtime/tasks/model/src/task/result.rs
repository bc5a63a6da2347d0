//! Result of an ended task.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use hankweave_core::machine::Extra;

/// The result of a completed task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskResult {
    /// Whether the work did what it should.
    pub success: bool,
    /// The agent's own word for the outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Output of the work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// Error, for a result without success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// A sentence for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// A user completed the task, and not its worker or agent.
    #[serde(default, rename = "byHand", skip_serializing_if = "std::ops::Not::not")]
    pub by_hand: bool,
    /// Names that others wrote; kept as they are.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub extra: Extra,
}
