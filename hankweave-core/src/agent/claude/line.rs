//! What the lines of claude's stream and of its transcripts hold, as far as anybody asks.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;

use crate::agent::lenient::{Count, Dollars, Flag, List, Members, Object, Text};
use crate::cost::pricing::Prices;
use crate::cost::{Billed, ModelUsage, TokenUsage, UsageTotals, Usd};

/// A line of the stream.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'l"))]
pub(super) struct StreamLine<'l> {
    #[serde(rename = "type")]
    pub(super) kind: Text<'l>,
    pub(super) subtype: Text<'l>,
    pub(super) parent_tool_use_id: Text<'l>,
    pub(super) message: Object<Message<'l>>,
    /// A piece of a message.
    pub(super) event: Object<Piece<'l>>,

    // `system`
    pub(super) session_id: Text<'l>,
    pub(super) model: Text<'l>,
    pub(super) status: Text<'l>,
    pub(super) attempt: Count,
    pub(super) max_retries: Count,
    pub(super) retry_delay_ms: Count,
    pub(super) error_status: Count,
    pub(super) error: Text<'l>,

    // `rate_limit_event`
    pub(super) rate_limit_info: Object<RateLimit<'l>>,

    // `result`
    pub(super) is_error: Flag,
    pub(super) result: Text<'l>,
    /// Error subtypes have them instead of `result`.
    pub(super) errors: List<Text<'l>>,
    pub(super) terminal_reason: Text<'l>,
    pub(super) api_error_status: Count,
    pub(super) usage: Object<Usage>,
    #[serde(rename = "modelUsage")]
    pub(super) model_usage: Models,
    pub(super) model_usage_since_last_result: Models,
    pub(super) total_cost_usd: Dollars,
    pub(super) permission_denials: List<Object<Denial<'l>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'l"))]
pub(super) struct Message<'l> {
    pub(super) id: Text<'l>,
    pub(super) model: Text<'l>,
    pub(super) usage: Object<Usage>,
    pub(super) content: List<Object<Block<'l>>>,
    pub(super) stop_reason: Text<'l>,
}

/// A piece of a message that is being written.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'l"))]
pub(super) struct Piece<'l> {
    #[serde(rename = "type")]
    pub(super) kind: Text<'l>,
    pub(super) message: Object<Message<'l>>,
    pub(super) delta: Object<Delta<'l>>,
    pub(super) usage: Object<Usage>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'l"))]
pub(super) struct Delta<'l> {
    pub(super) stop_reason: Text<'l>,
}

/// A part of what a message says, or a tool's answer.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'l"))]
pub(super) struct Block<'l> {
    #[serde(rename = "type")]
    pub(super) kind: Text<'l>,
    pub(super) text: Text<'l>,
    pub(super) thinking: Text<'l>,
    pub(super) id: Text<'l>,
    pub(super) name: Text<'l>,
    /// Of a tool use.
    pub(super) input: Value,
    pub(super) tool_use_id: Text<'l>,
    /// Of a tool's answer: a text or a list of blocks.
    pub(super) content: Value,
    pub(super) is_error: Flag,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'l"))]
pub(super) struct RateLimit<'l> {
    pub(super) status: Text<'l>,
    #[serde(rename = "resetsAt")]
    pub(super) resets_at: Count,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'l"))]
pub(super) struct Denial<'l> {
    pub(super) tool_name: Text<'l>,
    pub(super) tool_use_id: Text<'l>,
}

/// A line of a transcript.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'l"))]
pub(super) struct TranscriptLine<'l> {
    #[serde(rename = "type")]
    pub(super) kind: Text<'l>,
    pub(super) timestamp: Text<'l>,
    pub(super) message: Object<Message<'l>>,
    /// Of a request.
    pub(super) id: Text<'l>,
    /// The request that an answer belongs to.
    #[serde(rename = "requestRef")]
    pub(super) request: Text<'l>,
    #[serde(rename = "modelUsage")]
    pub(super) model_usage: Models,
}

/// `usage` of messages and results, as the API names it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Usage {
    input_tokens: Count,
    output_tokens: Count,
    cache_creation_input_tokens: Count,
    cache_read_input_tokens: Count,
    cache_creation: Object<CacheCreation>,
    server_tool_use: Object<ServerToolUse>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CacheCreation {
    ephemeral_1h_input_tokens: Count,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ServerToolUse {
    web_search_requests: Count,
}

impl Usage {
    pub(super) fn billed(&self) -> Billed {
        let cached = self.cache_creation.0.as_ref();
        let tools = self.server_tool_use.0.as_ref();
        Billed {
            tokens: TokenUsage {
                input_tokens: self.input_tokens.or_none(),
                output_tokens: self.output_tokens.or_none(),
                cache_creation_tokens: self.cache_creation_input_tokens.or_none(),
                cache_read_tokens: self.cache_read_input_tokens.or_none(),
            },
            long_cache_writes: cached.map_or(0, |cached| cached.ephemeral_1h_input_tokens.or_none()),
            web_searches: tools.map_or(0, |tools| tools.web_search_requests.or_none()),
        }
    }
}

/// Tokens and money by model, as claude itself names them.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub(super) struct Models(Members<Object<ModelTotals>>);

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ModelTotals {
    input_tokens: Count,
    output_tokens: Count,
    cache_creation_input_tokens: Count,
    cache_read_input_tokens: Count,
    #[serde(rename = "cacheCreationEphemeral1hInputTokens")]
    long_cache_writes: Count,
    web_search_requests: Count,
    #[serde(rename = "costUSD")]
    cost: Dollars,
}

impl Models {
    /// Their sum; `None` when no model is named.
    pub(super) fn totals(self, prices: &Prices) -> Option<UsageTotals> {
        let mut totals = UsageTotals::default();
        for (model, usage) in self.0.0 {
            if let Some(usage) = usage.0 {
                let (usage, priced) = usage.priced(&model, prices);
                totals.add(&model, usage);
                totals.lower_bound |= !priced;
            }
        }
        (!totals.models.is_empty()).then_some(totals)
    }
}

impl ModelTotals {
    /// What was used, and whether its price is known.
    fn priced(&self, model: &str, prices: &Prices) -> (ModelUsage, bool) {
        let billed = Billed {
            tokens: TokenUsage {
                input_tokens: self.input_tokens.or_none(),
                output_tokens: self.output_tokens.or_none(),
                cache_creation_tokens: self.cache_creation_input_tokens.or_none(),
                cache_read_tokens: self.cache_read_input_tokens.or_none(),
            },
            long_cache_writes: self.long_cache_writes.or_none(),
            web_searches: self.web_search_requests.or_none(),
        };
        let stated = self.cost.0.and_then(|dollars| Usd::from_dollars(dollars).ok());
        let cost = stated.or_else(|| billed.price(model, prices));
        let priced = cost.is_some() || billed.is_nothing();
        let usage = ModelUsage {
            tokens: billed.tokens,
            cost: cost.unwrap_or(Usd::ZERO),
        };
        (usage, priced)
    }
}

/// A tool's answer is a text or a list of blocks; images and the like leave their type.
pub(super) fn content_text(content: Value) -> String {
    match content {
        Value::Null => String::new(),
        Value::String(text) => text,
        Value::Array(blocks) => {
            let text = |block: &Value, key| block.get(key).and_then(Value::as_str).map(str::to_owned);
            let blocks = blocks.iter().filter(|block| block.is_object());
            let texts = blocks.map(|block| match text(block, "text") {
                Some(text) => text,
                None => format!("[{}]", text(block, "type").unwrap_or("unknown".into())),
            });
            texts.collect::<Vec<_>>().join("\n")
        }
        other => other.to_string(),
    }
}

impl StreamLine<'_> {
    /// What a result says: its text, else its errors, else that there was one.
    pub(super) fn result_text(&mut self) -> String {
        let errors = std::mem::take(&mut self.errors.0);
        let said = std::mem::take(&mut self.result).into_owned().unwrap_or_else(|| {
            let errors: Vec<Cow<'_, str>> = errors.into_iter().filter_map(|error| error.0).collect();
            errors.join("; ")
        });
        if said.is_empty() && self.is_error.0 {
            let subtype = self.subtype.as_deref().unwrap_or("unknown");
            return format!("the agent reported an error ({subtype})");
        }
        said
    }
}
