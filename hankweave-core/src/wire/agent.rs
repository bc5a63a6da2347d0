//! Parts of events about agents: kinds of their actions, and how they ended.

use serde::{Deserialize, Serialize};

use crate::shape::Named;

/// Kind of an agent's action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Named)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AgentAction {
    /// It thought.
    Thinking,
    /// It wrote something.
    Message,
    /// It used a tool.
    ToolUse,
}

/// How the agent of a codon ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum ExitStatus {
    /// As it should.
    Success,
    /// With an exit code, or -1 when there was no agent to exit.
    Error {
        /// The code.
        code: i64,
    },
    /// By a signal.
    Killed {
        /// The number of the signal.
        signal: i64,
    },
}
