//! Lines of opencode's stream, reduced to the fields in use.

use serde::Deserialize;
use serde_json::Value;

use crate::lenient::{Count, Dollars, Flag, Object, Text};
use hankweave_core::cost::{Billed, TokenUsage, Usd};

/// A line of the stream.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'l"))]
pub(super) struct StreamLine<'l> {
    #[serde(rename = "type")]
    pub(super) kind: Text<'l>,
    #[serde(rename = "sessionID")]
    pub(super) session: Text<'l>,
    pub(super) part: Object<Part<'l>>,
    pub(super) error: Object<Failure<'l>>,
}

/// A text, a tool call, or the end of a step.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'l"))]
pub(super) struct Part<'l> {
    pub(super) id: Text<'l>,
    /// Id of the message that contains the part.
    #[serde(rename = "messageID")]
    pub(super) message: Text<'l>,

    // `text` and `reasoning`
    pub(super) text: Text<'l>,
    pub(super) metadata: Object<Metadata>,

    // `tool_use`
    pub(super) tool: Text<'l>,
    /// Id of the call.
    #[serde(rename = "callID")]
    pub(super) call: Text<'l>,
    pub(super) state: Object<State<'l>>,

    // `step_finish`
    /// Why the step ended, such as `stop` or `tool-calls`.
    pub(super) reason: Text<'l>,
    pub(super) tokens: Object<Tokens>,
    pub(super) cost: Dollars,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Metadata {
    compaction_continue: Flag,
}

/// State of a tool call.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'l"))]
pub(super) struct State<'l> {
    pub(super) status: Text<'l>,
    pub(super) input: Value,
    pub(super) output: Text<'l>,
    pub(super) error: Text<'l>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Tokens {
    input: Count,
    output: Count,
    reasoning: Count,
    cache: Object<Cache>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Cache {
    read: Count,
    write: Count,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'l"))]
pub(super) struct Failure<'l> {
    pub(super) name: Text<'l>,
    pub(super) data: Object<FailureData<'l>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'l"))]
pub(super) struct FailureData<'l> {
    pub(super) message: Text<'l>,
    pub(super) status_code: Count,
}

impl Part<'_> {
    pub(super) fn billed(&self) -> Billed {
        let Some(tokens) = &self.tokens.0 else {
            return Billed::default();
        };
        let cache = tokens.cache.0.as_ref();
        let output = tokens.output.or_zero();
        Billed {
            tokens: TokenUsage {
                input_tokens: tokens.input.or_zero(),
                output_tokens: output.saturating_add(tokens.reasoning.or_zero()),
                cache_creation_tokens: cache.map_or(0, |cache| cache.write.or_zero()),
                cache_read_tokens: cache.map_or(0, |cache| cache.read.or_zero()),
            },
            ..Billed::default()
        }
    }

    /// Returns whether this text asks the model to continue after opencode has summed up a conversation that no longer fitted.
    pub(super) fn follows_summary(&self) -> bool {
        self.metadata
            .0
            .as_ref()
            .is_some_and(|metadata| metadata.compaction_continue.0)
    }

    /// Returns the cost that opencode itself computes, at the prices of its own list.
    pub(super) fn cost(&self) -> Option<Usd> {
        // Opencode prints sums of binary fractions, such as 0.0069299999999999995.
        Usd::from_dollars((self.cost.0? * 1e9).round() / 1e9).ok()
    }
}
