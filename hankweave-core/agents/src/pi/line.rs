//! Lines of pi's stream, reduced to the fields in use.

use serde::Deserialize;
use serde_json::Value;

use crate::lenient::{Count, Dollars, Flag, List, Object, Text};
use hankweave_core::cost::{Billed, TokenUsage, Usd};

/// A line of the stream.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'l"))]
pub(super) struct StreamLine<'l> {
    #[serde(rename = "type")]
    pub(super) kind: Text<'l>,
    /// Id of the session, in `session`.
    pub(super) id: Text<'l>,
    /// In `message_start` and `message_end`.
    pub(super) message: Object<Message<'l>>,
    /// Usage of the message in progress, in `message_update`; pi reports it since version 0.87.
    pub(super) usage: Object<Usage>,

    // `tool_execution_end`
    pub(super) tool_call_id: Text<'l>,
    pub(super) tool_name: Text<'l>,
    pub(super) result: Object<ToolOutput<'l>>,
    pub(super) is_error: Flag,

    // `auto_retry_start`
    pub(super) attempt: Count,
    pub(super) max_attempts: Count,
    pub(super) delay_ms: Count,

    /// In `auto_retry_start` and at the end of a summary.
    pub(super) error_message: Text<'l>,
    /// In the line at the end of a summary.
    pub(super) aborted: Flag,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'l"))]
pub(super) struct Message<'l> {
    pub(super) role: Text<'l>,
    pub(super) content: List<Object<Block<'l>>>,
    pub(super) model: Text<'l>,
    /// Provider of the model.
    pub(super) provider: Text<'l>,
    pub(super) usage: Object<Usage>,
    pub(super) stop_reason: Text<'l>,
    pub(super) error_message: Text<'l>,
    pub(super) response_id: Text<'l>,
}

/// A part of a message or of a tool's answer.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'l"))]
pub(super) struct Block<'l> {
    #[serde(rename = "type")]
    pub(super) kind: Text<'l>,
    pub(super) text: Text<'l>,
    pub(super) thinking: Text<'l>,
    pub(super) id: Text<'l>,
    pub(super) name: Text<'l>,
    pub(super) arguments: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'l"))]
pub(super) struct ToolOutput<'l> {
    pub(super) content: List<Object<Block<'l>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Usage {
    input: Count,
    output: Count,
    cache_read: Count,
    cache_write: Count,
    cache_write1h: Count,
    cost: Object<Cost>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Cost {
    total: Dollars,
}

impl Usage {
    pub(super) fn billed(&self) -> Billed {
        Billed {
            tokens: TokenUsage {
                input_tokens: self.input.or_zero(),
                output_tokens: self.output.or_zero(),
                cache_creation_tokens: self.cache_write.or_zero(),
                cache_read_tokens: self.cache_read.or_zero(),
            },
            long_cache_writes: self.cache_write1h.or_zero(),
            ..Billed::default()
        }
    }

    /// Returns the cost that pi itself computes, at the prices of its own list.
    pub(super) fn cost(&self) -> Option<Usd> {
        let total = self.cost.0.as_ref()?.total.0?;
        // Pi prints sums of binary fractions, such as 0.0069299999999999995.
        Usd::from_dollars((total * 1e9).round() / 1e9).ok()
    }
}
