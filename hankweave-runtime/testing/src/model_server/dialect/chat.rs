//! OpenAI Chat Completions: one document, or unnamed chunks that end with `[DONE]`.

use serde_json::{Value, json};

use super::Frame;
use crate::model_server::reply::Reply;
use crate::model_server::tools::ToolCall;

pub(super) fn whole(reply: &Reply<'_>) -> Value {
    let mut message = json!({"role": "assistant", "content": non_empty(&reply.text)});
    if !reply.calls.is_empty() {
        message["tool_calls"] = reply.calls.iter().map(|call| tool_call(reply, call)).collect();
    }
    let choice = json!({"index": 0, "message": message, "finish_reason": finish_reason(reply)});
    json!({
        "id": reply.id("chatcmpl-"), "object": "chat.completion", "created": 0, "model": reply.model,
        "choices": [choice], "usage": usage(reply),
    })
}

pub(super) fn stream(reply: &Reply<'_>) -> Vec<Frame> {
    let id = reply.id("chatcmpl-");
    let chunk = |choices: Value| json!({"id": id, "object": "chat.completion.chunk", "created": 0, "model": reply.model, "choices": choices});
    let delta = |delta: Value| chunk(json!([{"index": 0, "delta": delta, "finish_reason": null}]));
    let mut chunks = vec![delta(json!({"role": "assistant", "content": ""}))];
    if !reply.text.is_empty() {
        chunks.extend(
            reply
                .pieces(&reply.text)
                .into_iter()
                .map(|piece| delta(json!({"content": piece}))),
        );
    }
    for (index, call) in reply.calls.iter().enumerate() {
        let mut opening = tool_call(reply, call);
        opening["index"] = json!(index);
        opening["function"]["arguments"] = json!("");
        chunks.push(delta(json!({"tool_calls": [opening]})));
        for piece in reply.pieces(&call.arguments.to_string()) {
            chunks.push(delta(
                json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}),
            ));
        }
    }
    chunks.push(chunk(
        json!([{"index": 0, "delta": {}, "finish_reason": finish_reason(reply)}]),
    ));
    let mut closing = chunk(json!([]));
    closing["usage"] = usage(reply);
    chunks.push(closing);
    chunks
        .iter()
        .map(Frame::unnamed)
        .chain([Frame::unnamed("[DONE]")])
        .collect()
}

fn tool_call(reply: &Reply<'_>, call: &ToolCall) -> Value {
    let function = json!({"name": call.name, "arguments": call.arguments.to_string()});
    json!({"id": reply.ids.next("call_"), "type": "function", "function": function})
}

fn finish_reason<'r>(reply: &'r Reply<'_>) -> &'r str {
    reply.stop_reason("tool_calls", "stop")
}

fn non_empty(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

fn usage(reply: &Reply<'_>) -> Value {
    let mut usage = json!({
        "prompt_tokens": reply.usage.prompt(),
        "completion_tokens": reply.usage.output,
        "total_tokens": reply.usage.total(),
        "prompt_tokens_details": {"cached_tokens": reply.usage.cache_read},
    });
    if let Some(cost) = reply.usage.cost {
        usage["cost"] = cost.into();
    }
    usage
}
