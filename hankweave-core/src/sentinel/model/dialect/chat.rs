//! OpenAI chat completions, which servers of local models speak as well.

use serde_json::{Value, json};

use super::{ModelReply, Question, ReplyBody, count, messages, system_with_form};
use crate::cost::{TokenUsage, Usd};

pub(super) fn body(question: &Question) -> Value {
    let system = system_with_form(question).map(|system| json!({"role": "system", "content": system}));
    let messages: Vec<Value> = system.into_iter().chain(messages(question)).collect();
    let mut body = json!({"max_completion_tokens": question.max_output_tokens, "messages": messages});
    if let Some(form) = &question.form {
        let mut schema = json!({"name": form.name(), "schema": form.schema()});
        if let Some(description) = form.description() {
            schema["description"] = description.into();
        }
        body["response_format"] = json!({"type": "json_schema", "json_schema": schema});
    }
    body
}

pub(super) fn reply(read: &Value) -> Option<ModelReply> {
    let message = read["choices"].get(0)?.get("message")?;
    let said = match (message["content"].as_str(), message["refusal"].as_str()) {
        (_, Some(refusal)) => ReplyBody::Refused(refusal.to_owned()),
        (text, None) => ReplyBody::Text(text.unwrap_or_default().to_owned()),
    };
    let usage = &read["usage"];
    let prompt = count(usage, &["prompt_tokens"]);
    let cached = count(usage, &["prompt_tokens_details", "cached_tokens"]).min(prompt);
    // Some servers count thoughts only in the total; thoughts are billed as output.
    let output = count(usage, &["total_tokens"]).saturating_sub(prompt);
    let tokens = TokenUsage {
        input_tokens: prompt - cached,
        output_tokens: count(usage, &["completion_tokens"]).max(output),
        cache_read_tokens: cached,
        ..TokenUsage::ZERO
    };
    Some(ModelReply {
        said,
        tokens,
        cost: billed(usage),
    })
}

/// Returns the cost that OpenRouter reports, in US dollars. If OpenRouter uses the user's own key for a provider (`is_byok`), that provider bills as well.
fn billed(usage: &Value) -> Option<Usd> {
    let dollars = |value: &Value| Usd::from_dollars(value.as_f64()?).ok();
    let cost = dollars(&usage["cost"])?;
    let upstream = match usage["is_byok"] == true {
        true => dollars(&usage["cost_details"]["upstream_inference_cost"])?,
        false => Usd::ZERO,
    };
    Some(cost + upstream)
}
