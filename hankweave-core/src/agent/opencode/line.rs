//! What the lines of opencode's stream hold, as far as anybody asks.

use serde::Deserialize;
use serde_json::Value;

use crate::agent::lenient::{Count, Dollars, Object, Text};
use crate::cost::{Billed, TokenUsage, Usd};

/// A line of the stream.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct StreamLine<'l> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Text<'l>,
    #[serde(rename = "sessionID", borrow)]
    pub(super) session: Text<'l>,
    #[serde(borrow)]
    pub(super) part: Object<Part<'l>>,
    #[serde(borrow)]
    pub(super) error: Object<Failure<'l>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Part<'l> {
    #[serde(borrow)]
    pub(super) id: Text<'l>,
    #[serde(rename = "messageID", borrow)]
    pub(super) message: Text<'l>,
    #[serde(borrow)]
    pub(super) text: Text<'l>,
    #[serde(borrow)]
    pub(super) tool: Text<'l>,
    #[serde(rename = "callID", borrow)]
    pub(super) call: Text<'l>,
    #[serde(borrow)]
    pub(super) state: Object<State<'l>>,
    #[serde(borrow)]
    pub(super) reason: Text<'l>,
    pub(super) tokens: Object<Tokens>,
    pub(super) cost: Dollars,
}

/// What has become of a call.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct State<'l> {
    #[serde(borrow)]
    pub(super) status: Text<'l>,
    pub(super) input: Value,
    #[serde(borrow)]
    pub(super) output: Text<'l>,
    #[serde(borrow)]
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
#[serde(default)]
pub(super) struct Failure<'l> {
    #[serde(borrow)]
    pub(super) name: Text<'l>,
    #[serde(borrow)]
    pub(super) data: Object<FailureData<'l>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct FailureData<'l> {
    #[serde(borrow)]
    pub(super) message: Text<'l>,
    pub(super) status_code: Count,
}

impl Part<'_> {
    pub(super) fn billed(&self) -> Billed {
        let Some(tokens) = &self.tokens.0 else {
            return Billed::default();
        };
        let cache = tokens.cache.0.as_ref();
        let output = tokens.output.or_none();
        Billed {
            tokens: TokenUsage {
                input_tokens: tokens.input.or_none(),
                output_tokens: output.saturating_add(tokens.reasoning.or_none()),
                cache_creation_tokens: cache.map_or(0, |cache| cache.write.or_none()),
                cache_read_tokens: cache.map_or(0, |cache| cache.read.or_none()),
            },
            ..Billed::default()
        }
    }

    /// The money that opencode counts itself, at the prices of its own list.
    pub(super) fn cost(&self) -> Option<Usd> {
        // Sums of binary fractions, such as 0.0069299999999999995.
        Usd::from_dollars((self.cost.0? * 1e9).round() / 1e9).ok()
    }
}
