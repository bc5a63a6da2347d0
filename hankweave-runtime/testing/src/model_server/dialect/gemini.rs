//! Gemini: one document, or unnamed events that hold documents of one shape, of which the last one reports how it ended.

use serde_json::{Value, json};

use super::Frame;
use crate::model_server::reply::Reply;
use crate::model_server::scenario::Failure;

pub(super) fn whole(reply: &Reply<'_>) -> Value {
    let id = reply.id("resp-");
    closed(reply, document(reply, &id, &parts(reply)))
}

pub(super) fn stream(reply: &Reply<'_>) -> Vec<Frame> {
    let id = reply.id("resp-");
    let mut documents: Vec<Value> = pieces(reply)
        .iter()
        .map(|part| document(reply, &id, std::slice::from_ref(part)))
        .collect();
    let last = documents.pop().unwrap_or_else(|| document(reply, &id, &[]));
    documents.push(closed(reply, last));
    documents.iter().map(Frame::unnamed).collect()
}

/// The words of an error, with the name that the interface has for its status.
pub(super) fn error(failure: &Failure) -> Value {
    let status = match failure.status {
        400 => "INVALID_ARGUMENT",
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        429 => "RESOURCE_EXHAUSTED",
        503 => "UNAVAILABLE",
        _ => "INTERNAL",
    };
    json!({"error": {"code": failure.status, "message": failure.message, "status": status}})
}

fn document(reply: &Reply<'_>, id: &str, parts: &[Value]) -> Value {
    json!({
        "candidates": [{"index": 0, "content": {"role": "model", "parts": parts}}],
        "modelVersion": reply.model, "responseId": id,
    })
}

fn closed(reply: &Reply<'_>, mut document: Value) -> Value {
    document["candidates"][0]["finishReason"] = json!(reply.stop_reason("STOP", "STOP"));
    document["usageMetadata"] = json!({
        "promptTokenCount": reply.usage.prompt(),
        "cachedContentTokenCount": reply.usage.cache_read,
        "candidatesTokenCount": reply.usage.output,
        "thoughtsTokenCount": reply.usage.reasoning,
        "totalTokenCount": reply.usage.total() + reply.usage.reasoning,
    });
    document
}

fn parts(reply: &Reply<'_>) -> Vec<Value> {
    let thinking = Some(&reply.thinking).filter(|text| !text.is_empty());
    let text = Some(&reply.text).filter(|text| !text.is_empty());
    let thought = thinking.map(|text| json!({"thought": true, "text": text}));
    let said = text.map(|text| json!({"text": text}));
    thought.into_iter().chain(said).chain(calls(reply)).collect()
}

/// Returns the parts with texts cut into chunks.
fn pieces(reply: &Reply<'_>) -> Vec<Value> {
    let cut = |text: &str| match text {
        "" => Vec::new(),
        text => reply.pieces(text),
    };
    let thoughts = cut(&reply.thinking).into_iter();
    let thoughts = thoughts.map(|text| json!({"thought": true, "text": text}));
    let said = cut(&reply.text).into_iter().map(|text| json!({"text": text}));
    thoughts.chain(said).chain(calls(reply)).collect()
}

fn calls(reply: &Reply<'_>) -> Vec<Value> {
    let call = |call: &crate::model_server::tools::ToolCall| json!({"functionCall": {"id": reply.ids.next("call-"), "name": call.name, "args": call.arguments}});
    reply.calls.iter().map(call).collect()
}
