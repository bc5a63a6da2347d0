//! Lines of claude's stream and transcripts, reduced to the fields in use.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;

use crate::lenient::{Count, Dollars, Flag, List, Members, Object, Text};
use hankweave_core::cost::pricing::Prices;
use hankweave_core::cost::{Billed, ModelUsage, TokenUsage, UsageTotals, Usd};

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

    /// Background work, in `background_tasks_changed`.
    pub(super) tasks: List<Object<Task<'l>>>,

    // `user`
    pub(super) tool_use_result: Object<ToolUseResult>,

    // `command_lifecycle`
    pub(super) wakeup_source: Text<'l>,

    // `rate_limit_event`
    pub(super) rate_limit_info: Object<RateLimit<'l>>,

    // `result`
    pub(super) is_error: Flag,
    pub(super) result: Text<'l>,
    /// A result whose subtype is an error has these instead of `result`.
    pub(super) errors: List<Text<'l>>,
    /// The answer in the form that `--json-schema` asks for.
    pub(super) structured_output: Value,
    pub(super) terminal_reason: Text<'l>,
    pub(super) api_error_status: Count,
    pub(super) usage: Object<Usage>,
    #[serde(rename = "modelUsage")]
    pub(super) model_usage: Models<'l>,
    pub(super) model_usage_since_last_result: Models<'l>,
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

/// A part of a message, or of a tool's answer.
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

/// A task in the background.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'l"))]
pub(super) struct Task<'l> {
    pub(super) task_id: Text<'l>,
    pub(super) task_type: Text<'l>,
    pub(super) description: Text<'l>,
}

/// The part of a tool's answer that is meant for programs.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ToolUseResult {
    /// When the agent is called again, in milliseconds since 1970.
    #[serde(rename = "scheduledFor")]
    pub(super) scheduled_for: Count,
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
    /// Id, in an `api-request` line.
    pub(super) id: Text<'l>,
    /// Id of the request that was answered, in an `assistant` line.
    #[serde(rename = "requestRef")]
    pub(super) request: Text<'l>,
    #[serde(rename = "modelUsage")]
    pub(super) model_usage: Models<'l>,
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
    /// Whether the tokens are stated, and all are 0.
    pub(super) fn states_nothing(&self) -> bool {
        self.input_tokens.0.is_some() && self.output_tokens.0.is_some() && self.billed().is_nothing()
    }

    pub(super) fn billed(&self) -> Billed {
        let cached = self.cache_creation.0.as_ref();
        let tools = self.server_tool_use.0.as_ref();
        Billed {
            tokens: TokenUsage {
                input_tokens: self.input_tokens.or_zero(),
                output_tokens: self.output_tokens.or_zero(),
                cache_creation_tokens: self.cache_creation_input_tokens.or_zero(),
                cache_read_tokens: self.cache_read_input_tokens.or_zero(),
            },
            long_cache_writes: cached.map_or(0, |cached| cached.ephemeral_1h_input_tokens.or_zero()),
            web_searches: tools.map_or(0, |tools| tools.web_search_requests.or_zero()),
            ..Billed::default()
        }
    }
}

/// Tokens and money by model, as claude itself names them.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent, bound(deserialize = "'de: 'l"))]
pub(super) struct Models<'l>(Members<Object<ModelTotals<'l>>>);

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'l"))]
struct ModelTotals<'l> {
    input_tokens: Count,
    output_tokens: Count,
    cache_creation_input_tokens: Count,
    cache_read_input_tokens: Count,
    #[serde(rename = "cacheCreationEphemeral1hInputTokens")]
    long_cache_writes: Count,
    web_search_requests: Count,
    #[serde(rename = "costUSD")]
    cost: Dollars,
    /// Source of the price: `list` is claude's own list, also of versions without this field.
    cost_basis: Text<'l>,
}

/// Sum over models, as a result states it.
pub(super) struct ModelsSum {
    pub(super) totals: UsageTotals,
    /// Whether `totals` has another cost than claude's own sum, because a price is the user's, or because claude has guessed one.
    pub(super) is_repriced: bool,
}

impl Models<'_> {
    /// Returns the sum; `None` when no model is named.
    pub(super) fn sum(self, prices: &Prices) -> Option<ModelsSum> {
        let mut totals = UsageTotals::default();
        let mut is_repriced = false;
        for (model, usage) in self.0.0 {
            if let Some(usage) = usage.0 {
                let (priced, is_complete) = usage.priced(&model, prices);
                is_repriced |= !usage.is_known() || prices.given_for(&model).is_some();
                totals.add(&model, priced);
                totals.lower_bound |= !is_complete;
            }
        }
        (!totals.models.is_empty()).then_some(ModelsSum { totals, is_repriced })
    }
}

impl ModelTotals<'_> {
    /// Whether claude knows the model's price, and has not used that of another model instead.
    fn is_known(&self) -> bool {
        self.cost_basis.as_deref().is_none_or(|basis| basis == "list")
    }

    /// Returns the usage, and whether its cost is complete. The user's price comes first, then claude's where it knows one, then that of our list.
    fn priced(&self, model: &str, prices: &Prices) -> (ModelUsage, bool) {
        let billed = Billed {
            tokens: TokenUsage {
                input_tokens: self.input_tokens.or_zero(),
                output_tokens: self.output_tokens.or_zero(),
                cache_creation_tokens: self.cache_creation_input_tokens.or_zero(),
                cache_read_tokens: self.cache_read_input_tokens.or_zero(),
            },
            long_cache_writes: self.long_cache_writes.or_zero(),
            web_searches: self.web_search_requests.or_zero(),
            ..Billed::default()
        };
        let stated = self.cost.0.and_then(|dollars| Usd::from_dollars(dollars).ok());
        let stated = stated.filter(|_| self.is_known() && prices.given_for(model).is_none());
        let (cost, is_complete) = match (stated, prices.find(model)) {
            (Some(cost), _) => (cost, true),
            (None, Some((_, price))) => {
                // These are the tokens of several requests, and any of the requests may have been long enough for a higher price.
                let (cost, may_be_more) = price.rate.price_of_several(&billed);
                (cost, !may_be_more)
            }
            (None, None) => (Usd::ZERO, billed.is_nothing()),
        };
        let tokens = billed.tokens;
        (ModelUsage { tokens, cost }, is_complete)
    }
}

/// Returns the text of a tool's answer, which is a text or a list of blocks. A block without text, such as an image, becomes its type in brackets.
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
    /// Returns the text of a result, else its errors, else a note that there was one.
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
