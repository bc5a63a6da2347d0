//! OpenAI responses. With `store: false` the provider keeps nothing.

use serde_json::{Value, json};

use super::{ModelReply, Question, ReplyBody, count, messages};
use crate::cost::TokenUsage;

pub(super) fn body(question: &Question) -> Value {
    let mut body =
        json!({"max_output_tokens": question.max_output_tokens, "input": messages(question), "store": false});
    if let Some(system) = &question.system {
        body["instructions"] = system.as_str().into();
    }
    if let Some(form) = &question.form {
        let mut format = json!({"type": "json_schema", "name": form.name(), "schema": form.schema()});
        if let Some(description) = form.description() {
            format["description"] = description.into();
        }
        body["text"] = json!({"format": format});
    }
    body
}

pub(super) fn reply(read: &Value) -> Option<ModelReply> {
    let items = read["output"].as_array()?.iter();
    let parts = || {
        items
            .clone()
            .filter_map(|item| item["content"].as_array())
            .flatten()
    };
    let texts: String = parts()
        .filter(|part| part["type"] == "output_text")
        .filter_map(|part| part["text"].as_str())
        .collect();
    let refusal = parts().find_map(|part| part["refusal"].as_str());
    let failure = read["error"]["message"].as_str();
    let said = match refusal.or(failure) {
        Some(refusal) => ReplyBody::Refused(refusal.to_owned()),
        None => ReplyBody::Text(texts),
    };
    let usage = &read["usage"];
    let prompt = count(usage, &["input_tokens"]);
    let cached = count(usage, &["input_tokens_details", "cached_tokens"]).min(prompt);
    let tokens = TokenUsage {
        input_tokens: prompt - cached,
        output_tokens: count(usage, &["output_tokens"]),
        cache_read_tokens: cached,
        ..TokenUsage::ZERO
    };
    Some(ModelReply {
        said,
        tokens,
        cost: None,
    })
}
