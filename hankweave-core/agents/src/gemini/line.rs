//! Lines of gemini's stream and of its session files, reduced to the fields in use.

use serde::Deserialize;
use serde_json::Value;

use crate::lenient::{Count, Flag, Members, Object, Text};
use hankweave_core::cost::TokenUsage;

/// A line of the stream.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'l"))]
pub(super) struct StreamLine<'l> {
    #[serde(rename = "type")]
    pub(super) kind: Text<'l>,

    // `init`
    pub(super) session_id: Text<'l>,
    pub(super) model: Text<'l>,

    // `message`
    pub(super) role: Text<'l>,
    pub(super) content: Text<'l>,
    /// Whether `content` is a chunk of a message.
    pub(super) delta: Flag,

    // `error`
    pub(super) message: Text<'l>,

    // `tool_use` and `tool_result`
    pub(super) tool_name: Text<'l>,
    pub(super) tool_id: Text<'l>,
    pub(super) parameters: Value,
    pub(super) output: Text<'l>,

    // `tool_result` and `result`
    pub(super) status: Text<'l>,
    pub(super) error: Object<Failure<'l>>,

    // `result`
    pub(super) stats: Object<Stats>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'l"))]
pub(super) struct Failure<'l> {
    pub(super) message: Text<'l>,
}

/// Usage of one process, in its result.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Stats {
    pub(super) models: Members<Object<ModelStats>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ModelStats {
    total_tokens: Count,
    input_tokens: Count,
    output_tokens: Count,
    cached: Count,
}

impl ModelStats {
    /// Returns the tokens.
    pub(super) fn tokens(&self) -> TokenUsage {
        let (input, cached) = (self.input_tokens.or_zero(), self.cached.or_zero());
        tokens(
            input,
            cached,
            self.output_tokens.or_zero(),
            self.total_tokens.or_zero(),
        )
    }
}

/// A line of a session file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'l"))]
pub(super) struct ChatLine<'l> {
    pub(super) session_id: Text<'l>,
    pub(super) id: Text<'l>,
    pub(super) timestamp: Text<'l>,
    #[serde(rename = "type")]
    pub(super) kind: Text<'l>,
    pub(super) model: Text<'l>,
    pub(super) tokens: Object<ChatTokens>,
}

/// Usage of a message.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ChatTokens {
    input: Count,
    output: Count,
    cached: Count,
    thoughts: Count,
    total: Count,
}

impl ChatTokens {
    /// Returns the tokens.
    pub(super) fn tokens(&self) -> TokenUsage {
        let written = self.output.or_zero().saturating_add(self.thoughts.or_zero());
        let (input, cached) = (self.input.or_zero(), self.cached.or_zero());
        tokens(input, cached, written, self.total.or_zero())
    }
}

/// Returns the tokens. `input` includes the part from the cache (AGENT-47). `total` includes thoughts, which `output` may lack.
fn tokens(input: u64, cached: u64, output: u64, total: u64) -> TokenUsage {
    TokenUsage {
        input_tokens: input.saturating_sub(cached),
        output_tokens: output.max(total.saturating_sub(input)),
        cache_creation_tokens: 0,
        cache_read_tokens: cached,
    }
}
