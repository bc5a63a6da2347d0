//! Lines of codex's stream and rollout files, reduced to the fields in use.

use serde::Deserialize;
use serde_json::Value;

use crate::lenient::{Count, List, Object, Text};
use hankweave_core::cost::TokenUsage;

/// A line of the stream.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'l"))]
pub(super) struct StreamLine<'l> {
    #[serde(rename = "type")]
    pub(super) kind: Text<'l>,
    /// In `thread.started`: the id of the session.
    pub(super) thread_id: Text<'l>,
    /// In `error`.
    pub(super) message: Text<'l>,
    /// In `turn.failed`.
    pub(super) error: Object<Failure<'l>>,
    /// In `turn.completed`.
    pub(super) usage: Object<Usage>,
    /// In `item.started` and `item.completed`.
    pub(super) item: Object<Item<'l>>,
}

/// Error of a turn or of a tool.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'l"))]
pub(super) struct Failure<'l> {
    pub(super) message: Text<'l>,
}

/// A message or an action of the agent.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'l"))]
pub(super) struct Item<'l> {
    pub(super) id: Text<'l>,
    #[serde(rename = "type")]
    pub(super) kind: Text<'l>,
    /// Of a message or a thought.
    pub(super) text: Text<'l>,

    // All tool calls.
    pub(super) status: Text<'l>,
    pub(super) error: Object<Failure<'l>>,

    // Shell commands.
    pub(super) command: Text<'l>,
    pub(super) aggregated_output: Text<'l>,

    // MCP tools. A call to sub-agents has its tool in `tool`, too.
    pub(super) server: Text<'l>,
    pub(super) tool: Text<'l>,
    pub(super) arguments: Value,
    pub(super) result: Object<McpResult<'l>>,

    // The provider's web search.
    pub(super) query: Text<'l>,
    pub(super) action: Object<Action<'l>>,

    // Calls to sub-agents.
    pub(super) prompt: Text<'l>,
    /// Session ids of the sub-agents that get `prompt`.
    pub(super) receiver_thread_ids: List<Text<'l>>,

    // Changes of files.
    pub(super) changes: Value,
}

/// Action of the provider's web search: a search, or the opening of a page.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'l"))]
pub(super) struct Action<'l> {
    #[serde(rename = "type")]
    kind: Text<'l>,
}

impl Action<'_> {
    /// Whether the action is a search, for which the provider charges; opening a page afterwards is free (AGENT-17).
    pub(super) fn is_search(&self) -> bool {
        self.kind.as_deref() == Some("search")
    }
}

/// The answer of a tool of an MCP server.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'l"))]
pub(super) struct McpResult<'l> {
    pub(super) content: List<Object<Piece<'l>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'l"))]
pub(super) struct Piece<'l> {
    pub(super) text: Text<'l>,
}

/// A line of a rollout file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'l"))]
pub(super) struct RolloutLine<'l> {
    pub(super) timestamp: Text<'l>,
    #[serde(rename = "type")]
    pub(super) kind: Text<'l>,
    pub(super) payload: Object<Payload<'l>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'l"))]
pub(super) struct Payload<'l> {
    #[serde(rename = "type")]
    pub(super) kind: Text<'l>,
    pub(super) model: Text<'l>,
    pub(super) response_id: Text<'l>,
    pub(super) usage: Object<Usage>,
    pub(super) thread_token_usage: Object<Usage>,
    pub(super) info: Object<Info>,
    /// Action of the provider's web search.
    pub(super) action: Object<Action<'l>>,
    pub(super) thread_settings: Object<ThreadSettings<'l>>,
}

/// The settings with which the next requests of a session are made.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'l"))]
pub(super) struct ThreadSettings<'l> {
    pub(super) service_tier: Text<'l>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Info {
    pub(super) total_token_usage: Object<Usage>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Usage {
    input_tokens: Count,
    cached_input_tokens: Count,
    cache_write_input_tokens: Count,
    output_tokens: Count,
}

impl Usage {
    /// Returns the tokens. The reported input includes the tokens written to the cache and read from it (AGENT-47).
    pub(super) fn tokens(&self) -> TokenUsage {
        let (written, read) = (
            self.cache_write_input_tokens.or_zero(),
            self.cached_input_tokens.or_zero(),
        );
        TokenUsage {
            input_tokens: self
                .input_tokens
                .or_zero()
                .saturating_sub(written)
                .saturating_sub(read),
            output_tokens: self.output_tokens.or_zero(),
            cache_creation_tokens: written,
            cache_read_tokens: read,
        }
    }
}
