//! OpenAI Responses: a list of output items, whole or as numbered events.

use serde_json::{Value, json};

use super::Frame;
use crate::model_server::reply::Reply;
use crate::model_server::request::ToolKind;
use crate::model_server::scenario::Failure;
use crate::model_server::tools::ToolCall;

pub(super) fn whole(reply: &Reply<'_>) -> Value {
    response(reply, &reply.id("resp_"), &items(reply))
}

pub(super) fn stream(reply: &Reply<'_>) -> Vec<Frame> {
    let id = reply.id("resp_");
    let items = items(reply);
    let mut events = Events::default();
    let opening = unfinished(reply, &id, "in_progress");
    events.push("response.created", json!({"response": opening}));
    events.push("response.in_progress", json!({"response": opening}));
    if let Some(failure) = &reply.failed {
        events.push(
            "response.failed",
            json!({"response": failed(reply, &id, failure)}),
        );
        return events.0;
    }
    for (index, item) in items.iter().enumerate() {
        events.push(
            "response.output_item.added",
            json!({"output_index": index, "item": started(item)}),
        );
        deltas(reply, index, item, &mut events);
        events.push(
            "response.output_item.done",
            json!({"output_index": index, "item": item}),
        );
    }
    let mut whole = response(reply, &id, &items);
    let event = match reply.stop_reason.as_deref() {
        Some("max_tokens") => {
            whole["status"] = json!("incomplete");
            whole["incomplete_details"] = json!({"reason": "max_output_tokens"});
            "response.incomplete"
        }
        _ => "response.completed",
    };
    events.push(event, json!({"response": whole}));
    events.0
}

/// Frames with their running number.
#[derive(Default)]
struct Events(Vec<Frame>);

impl Events {
    fn push(&mut self, event: &'static str, mut fields: Value) {
        fields["sequence_number"] = json!(self.0.len());
        self.0.push(Frame::typed(event, fields));
    }
}

fn deltas(reply: &Reply<'_>, index: usize, item: &Value, events: &mut Events) {
    let (event, text) = match item["type"].as_str() {
        Some("message") => ("response.output_text.delta", &item["content"][0]["text"]),
        Some("function_call") => ("response.function_call_arguments.delta", &item["arguments"]),
        _ => return,
    };
    for piece in reply.pieces(text.as_str().unwrap_or_default()) {
        let mut delta = json!({"item_id": item["id"], "output_index": index, "delta": piece});
        if item["type"] == "message" {
            delta["content_index"] = json!(0);
        }
        events.push(event, delta);
    }
}

/// Returns an item at its beginning: known, but still without its content.
fn started(item: &Value) -> Value {
    let mut item = item.clone();
    match item["type"].as_str() {
        Some("reasoning") => item["summary"] = json!([]),
        Some("message") => {
            item["content"] = json!([]);
            item["status"] = json!("in_progress");
        }
        _ => item["status"] = json!("in_progress"),
    }
    item
}

fn items(reply: &Reply<'_>) -> Vec<Value> {
    let searches = 0..reply.usage.web_searches;
    let mut items: Vec<Value> = searches.map(|_| web_search(reply)).collect();
    if !reply.thinking.is_empty() {
        let summary = json!([{"type": "summary_text", "text": reply.thinking}]);
        items.push(json!({"type": "reasoning", "id": reply.ids.next("rs_"), "summary": summary}));
    }
    if !reply.text.is_empty() {
        let content = json!([{"type": "output_text", "text": reply.text, "annotations": []}]);
        items.push(json!({
            "type": "message", "id": reply.ids.next("msg_"), "role": "assistant", "status": "completed",
            "content": content,
        }));
    }
    items.extend(reply.calls.iter().map(|call| call_item(reply, call)));
    items
}

/// A search that the provider made itself, for which it charges.
fn web_search(reply: &Reply<'_>) -> Value {
    json!({
        "type": "web_search_call", "id": reply.ids.next("ws_"), "status": "completed",
        "action": {"type": "search", "query": "what is new"},
    })
}

fn call_item(reply: &Reply<'_>, call: &ToolCall) -> Value {
    let mut item = match call.kind {
        ToolKind::Function => json!({
            "type": "function_call", "id": reply.ids.next("fc_"), "name": call.name,
            "arguments": call.arguments.to_string(),
        }),
        ToolKind::Custom => json!({
            "type": "custom_tool_call", "id": reply.ids.next("ctc_"), "name": call.name,
            "input": free_text(&call.arguments),
        }),
        ToolKind::LocalShell => json!({
            "type": "local_shell_call", "id": reply.ids.next("lsh_"),
            "action": {"type": "exec", "command": call.arguments["command"], "env": {}},
        }),
    };
    item["call_id"] = json!(reply.ids.next("call_"));
    item["status"] = json!("completed");
    if let Some(namespace) = &call.namespace {
        item["namespace"] = json!(namespace);
    }
    item
}

fn free_text(arguments: &Value) -> String {
    let text = arguments.as_str().or_else(|| arguments["input"].as_str());
    text.map_or_else(|| arguments.to_string(), str::to_owned)
}

fn response(reply: &Reply<'_>, id: &str, items: &[Value]) -> Value {
    json!({
        "id": id, "object": "response", "created_at": 0, "status": "completed", "model": reply.model,
        "output": items, "error": null, "incomplete_details": null, "parallel_tool_calls": true,
        "usage": {
            "input_tokens": reply.usage.prompt(),
            "input_tokens_details": {"cached_tokens": reply.usage.cache_read},
            "output_tokens": reply.usage.output,
            "output_tokens_details": {"reasoning_tokens": reply.usage.reasoning},
            "total_tokens": reply.usage.total(),
        },
    })
}

fn unfinished(reply: &Reply<'_>, id: &str, status: &str) -> Value {
    let mut response = response(reply, id, &[]);
    response["status"] = json!(status);
    response["usage"] = Value::Null;
    response
}

fn failed(reply: &Reply<'_>, id: &str, failure: &Failure) -> Value {
    let mut response = unfinished(reply, id, "failed");
    response["error"] = json!({"code": failure.code, "message": failure.message});
    response
}
