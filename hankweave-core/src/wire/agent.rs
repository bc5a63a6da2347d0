//! Agents' output, as clients get it.

use serde::{Deserialize, Serialize};

use super::Event;
use crate::agent::AgentEvent;
use crate::id::CodonId;
use crate::shape::Named;

/// Kind of an agent's action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Named)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AgentAction {
    /// It thought.
    Thinking,
    /// It said something.
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

impl Event {
    /// Returns the event of an agent's output in its codon; `None` for output that clients get in another form: sessions, usage and ends.
    ///
    /// The name of a tool may be unknown and the time of its call is not known here.
    #[must_use]
    pub fn of_agent(codon_id: CodonId, event: AgentEvent) -> Option<Self> {
        let action = |codon_id, action, content, parent_tool_use_id| Self::AssistantAction {
            codon_id,
            action,
            content,
            tool_name: None,
            tool_input: None,
            tool_use_id: None,
            parent_tool_use_id,
        };
        Some(match event {
            AgentEvent::Message {
                text,
                parent_tool_use_id: parent,
            } => action(codon_id, AgentAction::Message, text, parent),
            AgentEvent::Thinking {
                text,
                parent_tool_use_id: parent,
            } => action(codon_id, AgentAction::Thinking, text, parent),
            AgentEvent::ToolUse {
                id,
                name,
                input,
                parent_tool_use_id,
            } => Self::AssistantAction {
                codon_id,
                action: AgentAction::ToolUse,
                content: name.clone(),
                tool_name: Some(name),
                tool_input: Some(input),
                tool_use_id: Some(id),
                parent_tool_use_id,
            },
            AgentEvent::ToolResult(result) => Self::ToolResult {
                codon_id,
                tool_use_id: result.tool_use_id,
                tool_name: result.tool_name.unwrap_or_default(),
                result: result.text,
                truncated: result.truncated,
                original_length: result.original_length,
                execution_time_ms: 0,
                is_error: result.is_error,
                parent_tool_use_id: result.parent_tool_use_id,
            },
            AgentEvent::Compacted => Self::Info {
                message: "the agent shortened its conversation".to_owned(),
            },
            AgentEvent::Retrying {
                attempt,
                max_retries,
                error,
                ..
            } => {
                let most = max_retries.map_or(String::new(), |most| format!(" of {most}"));
                let why = error.unwrap_or_else(|| "a failed request".to_owned());
                let message = format!("the agent retries after {why} (retry {attempt}{most})");
                Self::Info { message }
            }
            AgentEvent::OutputTruncated { bytes, sha256 } => Self::OutputTruncated {
                codon_id,
                length: bytes,
                sha256,
            },
            AgentEvent::Unparsed { start } => Self::OutputUnparsed { codon_id, start },
            AgentEvent::SessionStarted { .. }
            | AgentEvent::Usage(_)
            | AgentEvent::Result(_)
            | AgentEvent::Background(_)
            | AgentEvent::Finished(_) => return None,
        })
    }
}
