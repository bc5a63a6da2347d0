//! The one vocabulary into which every driver translates its agent.

use serde_json::Value;

use super::outcome::ExitOutcome;
use crate::cost::{ModelUsage, UsageTotals};
use crate::id::SessionId;

/// An event that an agent reported. Events come in the order of the agent's output.
///
/// `parent_tool_use_id` is the tool use that started a sub-agent, on every event of the sub-agent; `None` is the main conversation.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum AgentEvent {
    /// The agent is up and has a session. After background work this event may repeat, with the session unchanged.
    SessionStarted {
        /// The agent's name for the conversation.
        session_id: SessionId,
        /// The model the agent reports.
        model: Option<String>,
    },
    /// Text of the model.
    Message {
        /// The text of one content block.
        text: String,
        /// See [`AgentEvent`].
        parent_tool_use_id: Option<String>,
    },
    /// Reasoning of the model.
    Thinking {
        /// The text of one content block; may be empty.
        text: String,
        /// See [`AgentEvent`].
        parent_tool_use_id: Option<String>,
    },
    /// The model calls a tool.
    ToolUse {
        /// Id that connects the call with its result.
        id: String,
        /// The tool's name.
        name: String,
        /// The arguments, verbatim.
        input: Value,
        /// See [`AgentEvent`].
        parent_tool_use_id: Option<String>,
    },
    /// A tool has answered.
    ToolResult(ToolResult),
    /// Usage of one model message: reported when the message starts, and again with the usage added since then.
    Usage(MessageUsage),
    /// The agent shortens its conversation because its context is full.
    Compacted,
    /// The agent's request failed, and the agent will repeat it.
    Retrying {
        /// Number of this retry, counted from 1.
        attempt: u64,
        /// Maximum of retries, where the agent reports it.
        max_retries: Option<u64>,
        /// Milliseconds until the retry.
        delay_ms: Option<u64>,
        /// HTTP status of the failure.
        status: Option<u16>,
        /// The agent's word for the failure.
        error: Option<String>,
    },
    /// The agent has finished an answer. There may be several; only the end of the process ends the work.
    Result(AgentResult),
    /// Work in the background, after which the agent continues. Each change reports the whole list; an empty list means that all work has ended.
    Background(Vec<BackgroundWork>),
    /// A line was too long to be read; the log file has it.
    OutputTruncated {
        /// Length of the line in bytes, without its line break.
        bytes: u64,
        /// SHA-256 of these bytes, in hexadecimal digits.
        sha256: String,
    },
    /// A line was not a JSON object; the log file has it.
    Unparsed {
        /// The first characters of the line.
        start: String,
    },
    /// The agent has ended. Always the last event.
    Finished(ExitOutcome),
}

impl AgentEvent {
    /// Returns a text in the main conversation.
    pub fn message(text: String) -> Self {
        Self::Message {
            text,
            parent_tool_use_id: None,
        }
    }

    /// Returns reasoning in the main conversation.
    pub fn thinking(text: String) -> Self {
        Self::Thinking {
            text,
            parent_tool_use_id: None,
        }
    }

    /// Returns a call of a tool in the main conversation.
    pub fn tool_use(id: String, name: String, input: Value) -> Self {
        Self::ToolUse {
            id,
            name,
            input,
            parent_tool_use_id: None,
        }
    }
}

/// The answer of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    /// The call that is answered.
    pub tool_use_id: String,
    /// The tool's name; `None` if its call was not reported.
    pub tool_name: Option<String>,
    /// The answer as text, at most [`ToolResult::MAX_CHARS`] characters and then `...`.
    pub text: String,
    /// Whether `text` was cut.
    pub truncated: bool,
    /// Length of the whole text in characters.
    pub original_length: usize,
    /// Whether the tool failed.
    pub is_error: bool,
    /// See [`AgentEvent`].
    pub parent_tool_use_id: Option<String>,
}

impl ToolResult {
    /// Maximum length of a tool's answer in an event, in characters (AGENT-5).
    pub const MAX_CHARS: usize = 2_500;

    /// Returns the answer of a tool of the main conversation, cut if `whole` is too long.
    pub fn new(tool_use_id: String, tool_name: Option<String>, whole: String, is_error: bool) -> Self {
        let original_length = whole.chars().count();
        let truncated = original_length > Self::MAX_CHARS;
        Self {
            tool_use_id,
            tool_name,
            text: if truncated { cut(&whole) } else { whole },
            truncated,
            original_length,
            is_error,
            parent_tool_use_id: None,
        }
    }
}

/// Cuts a tool's answer to the length that fits into an event.
fn cut(whole: &str) -> String {
    let end = whole.char_indices().nth(ToolResult::MAX_CHARS);
    let end = end.map_or(whole.len(), |(at, _)| at);
    format!("{}...", &whole[..end])
}

/// Usage of one model message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageUsage {
    /// The provider's id of the message.
    pub message_id: String,
    /// The model that wrote the message.
    pub model: String,
    /// All tokens of the message until now and their price. While the message is being written, its output tokens are not known.
    pub usage: ModelUsage,
    /// Part of `usage` that was not reported before.
    pub added: ModelUsage,
    /// Whether the message is reported for the first time.
    pub is_new: bool,
    /// Whether the process has used more until now than is reported, because a message is being written or was cut off.
    pub is_lower_bound: bool,
    /// Tokens with an unknown price were used, and the agent will not report their cost either: a limit in dollars cannot be enforced.
    pub is_unpriced: bool,
    /// Whether several requests used this together, so that it does not show the size of a context.
    pub is_sum: bool,
    /// See [`AgentEvent`].
    pub parent_tool_use_id: Option<String>,
}

/// Work in the background of an agent. At the end of the work the agent is called again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackgroundWork {
    /// The agent's id of the work.
    pub id: String,
    /// Description for people, in one line of at most [`BackgroundWork::MAX_CHARS`] characters.
    pub title: String,
    /// Whether it is a command that the agent has started, which may be a server.
    pub is_command: bool,
}

impl BackgroundWork {
    /// Longest title.
    pub const MAX_CHARS: usize = 120;

    /// Returns work with this description as title, or with its id if the description is empty.
    pub fn new(id: String, description: &str, is_command: bool) -> Self {
        let title = description.split_whitespace().collect::<Vec<_>>().join(" ");
        let title = if title.is_empty() { id.clone() } else { title };
        Self {
            title: title.chars().take(Self::MAX_CHARS).collect(),
            id,
            is_command,
        }
    }
}

/// A closing message of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentResult {
    /// Whether the agent calls it a success.
    pub success: bool,
    /// Whether the agent failed because the conversation no longer fits into the model's context.
    pub context_exceeded: bool,
    /// The final answer, or what went wrong.
    pub text: String,
    /// Whether the agent ended because it had spent all the money that it was given.
    pub budget_exhausted: bool,
    /// The answer in the requested form, where the agent reports it apart from its text.
    pub structured: Option<Value>,
    /// HTTP status of the request that failed.
    pub error_status: Option<u16>,
    /// The agent's word for why it stopped, such as `completed` or `max_turns`.
    pub terminal_reason: Option<String>,
    /// Usage of this process so far, without earlier processes of a resumed session.
    pub usage: UsageTotals,
    /// Tool calls that were not permitted.
    pub permission_denials: Vec<PermissionDenial>,
}

impl AgentResult {
    /// Returns whether the agent failed by itself, and neither because its money was spent nor because it was told to stop.
    #[must_use]
    pub fn is_own_error(&self) -> bool {
        let was_stopped = self.terminal_reason.as_deref().is_some_and(|reason| {
            let reason = reason.to_ascii_lowercase();
            ["abort", "cancel"].iter().any(|stopped| reason.contains(stopped))
        });
        !self.success && !self.budget_exhausted && !was_stopped
    }
}

/// A tool call that was not permitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionDenial {
    /// The tool's name.
    pub tool_name: String,
    /// Id of the call.
    pub tool_use_id: String,
}
