//! Prints the claude stream: lines of JSON like those that claude prints.

use std::io::{self, Write};

use hankweave_core::cost::pricing::Prices;
use hankweave_core::cost::{ModelUsage, TokenUsage, UsageTotals};
use serde_json::{Map, Value, json};

use super::script::{ScriptedError, ScriptedUsage};

/// Prints lines of one session.
pub(super) struct ScriptedStream {
    pub(super) session_id: String,
    pub(super) model: String,
}

impl ScriptedStream {
    /// Prints the opening line.
    pub(super) fn init(&self, work_dir: &str) -> io::Result<()> {
        self.line(json!({"type": "system", "subtype": "init", "cwd": work_dir, "model": self.model}))
    }

    /// Prints a line with one content block of a message. Every line of a message repeats the id of the message and its usage.
    pub(super) fn block(&self, message: &str, usage: ScriptedUsage, block: Value) -> io::Result<()> {
        let message = json!({
            "id": message, "type": "message", "role": "assistant", "model": self.model, "content": [block],
            "usage": {
                // As with claude, the number of output tokens is complete only in the closing line.
                "input_tokens": usage.input, "output_tokens": usage.output.min(1),
                "cache_creation_input_tokens": usage.cache_creation, "cache_read_input_tokens": usage.cache_read,
            },
        });
        self.line(json!({"type": "assistant", "message": message, "parent_tool_use_id": null}))
    }

    pub(super) fn tool_result(&self, id: &str, text: &str, is_error: bool) -> io::Result<()> {
        let block = json!({"type": "tool_result", "tool_use_id": id, "content": text, "is_error": is_error});
        let message = json!({"role": "user", "content": [block]});
        self.line(json!({"type": "user", "message": message, "parent_tool_use_id": null}))
    }

    /// Prints the list of the commands in the background, each with its id and its text.
    pub(super) fn background<'c>(
        &self,
        commands: impl Iterator<Item = (&'c str, &'c str)>,
    ) -> io::Result<()> {
        let task = |(id, command)| json!({"task_id": id, "task_type": "local_bash", "description": command});
        let tasks: Vec<Value> = commands.map(task).collect();
        self.line(json!({"type": "system", "subtype": "background_tasks_changed", "tasks": tasks}))
    }

    /// Prints that a command in the background has ended.
    pub(super) fn notification(&self, id: &str, command: &str, succeeded: bool) -> io::Result<()> {
        let status = if succeeded { "completed" } else { "failed" };
        let summary = format!("Background command \"{command}\" {status}");
        self.line(json!({"type": "system", "subtype": "task_notification", "task_id": id, "status": status, "summary": summary}))
    }

    /// Prints the closing line, with number `index`. `own` is the usage of this process since the last closing line; its tokens are stated only if
    /// `states_usage`. `session` is the usage of all processes of the session. The cost is left out for a model without a price.
    pub(super) fn result(
        &self,
        text: &str,
        failure: Option<&ScriptedError>,
        (own, states_usage): (&UsageTotals, bool),
        session: &UsageTotals,
        index: u64,
    ) -> io::Result<()> {
        let terminal_reason = match failure {
            None => "completed",
            Some(failure) if failure.context_exceeded => "prompt_too_long",
            Some(_) => "api_error",
        };
        self.line(json!({
            "usage": states_usage.then(|| api_usage(own.tokens)),
            "total_cost_usd": (!session.lower_bound).then_some(session.cost),
            "modelUsage": model_usage(session),
            "model_usage_since_last_result": model_usage(own),
            "permission_denials": [],
            "terminal_reason": terminal_reason,
            "api_error_status": failure.and_then(|failure| failure.status),
            "is_error": failure.is_some(),
            "subtype": "success",
            "result": text,
            "result_index": index,
            "type": "result",
        }))
    }

    fn line(&self, mut line: Value) -> io::Result<()> {
        line["session_id"] = Value::from(self.session_id.as_str());
        raw(format!("{line}\n").as_bytes())
    }
}

/// Prints bytes as they are.
pub(super) fn raw(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}

impl From<ScriptedUsage> for TokenUsage {
    fn from(usage: ScriptedUsage) -> Self {
        Self {
            input_tokens: usage.input,
            output_tokens: usage.output,
            cache_creation_tokens: usage.cache_creation,
            cache_read_tokens: usage.cache_read,
        }
    }
}

/// Returns tokens in the form of the model's API.
fn api_usage(tokens: TokenUsage) -> Value {
    json!({
        "input_tokens": tokens.input_tokens, "output_tokens": tokens.output_tokens,
        "cache_creation_input_tokens": tokens.cache_creation_tokens,
        "cache_read_input_tokens": tokens.cache_read_tokens,
    })
}

/// Returns the usage by model in the form of claude.
fn model_usage(totals: &UsageTotals) -> Map<String, Value> {
    let prices = Prices::listed();
    let entry = |model: &str, usage: &ModelUsage| {
        let cost = prices.find(model).map(|_| usage.cost);
        json!({
            "inputTokens": usage.tokens.input_tokens, "outputTokens": usage.tokens.output_tokens,
            "cacheReadInputTokens": usage.tokens.cache_read_tokens,
            "cacheCreationInputTokens": usage.tokens.cache_creation_tokens, "costUSD": cost,
        })
    };
    totals
        .models
        .iter()
        .map(|(model, usage)| (model.clone(), entry(model, usage)))
        .collect()
}
