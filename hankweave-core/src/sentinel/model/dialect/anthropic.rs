//! Anthropic Messages. The form of the answer is sent as a tool that the model has to call.

use serde_json::{Value, json};

use super::{ModelReply, Question, ReplyBody, count, messages};
use crate::cost::TokenUsage;

pub(super) fn body(question: &Question) -> Value {
    let mut body = json!({"max_tokens": question.max_output_tokens, "messages": messages(question)});
    if let Some(system) = &question.system {
        body["system"] = system.as_str().into();
    }
    if let Some(form) = &question.form {
        let mut tool = json!({"name": form.name(), "input_schema": form.schema()});
        if let Some(description) = form.description() {
            tool["description"] = description.into();
        }
        body["tools"] = json!([tool]);
        body["tool_choice"] = json!({"type": "tool", "name": form.name()});
    }
    body
}

pub(super) fn reply(read: &Value) -> Option<ModelReply> {
    let content = read["content"].as_array()?;
    let texts = content.iter().filter_map(|block| block["text"].as_str());
    let text: String = texts.collect();
    let called = content.iter().find(|block| block["type"] == "tool_use");
    let said = match called {
        _ if read["stop_reason"] == "refusal" => ReplyBody::Refused(text),
        Some(call) => ReplyBody::Object(call["input"].clone()),
        None => ReplyBody::Text(text),
    };
    let usage = &read["usage"];
    let tokens = TokenUsage {
        input_tokens: count(usage, &["input_tokens"]),
        output_tokens: count(usage, &["output_tokens"]),
        cache_creation_tokens: count(usage, &["cache_creation_input_tokens"]),
        cache_read_tokens: count(usage, &["cache_read_input_tokens"]),
    };
    Some(ModelReply {
        said,
        tokens,
        cost: None,
    })
}
