//! Anthropic Messages: one document, or a stream of typed events with a start, deltas and a stop for each block.

use serde_json::{Value, json};

use super::Frame;
use crate::model_server::reply::Reply;
use crate::model_server::scenario::Usage;

/// Agents send the signature of a thought back without looking into it.
const SIGNATURE: &str = "c2NyaXB0ZWQ=";

pub(super) fn whole(reply: &Reply<'_>) -> Value {
    let content: Vec<Value> = blocks(reply).into_iter().map(|block| block.content).collect();
    message(
        reply,
        json!(content),
        json!(stop_reason(reply)),
        usage(reply.usage),
    )
}

pub(super) fn stream(reply: &Reply<'_>) -> Vec<Frame> {
    // The real interface reports a single output token at the start and the true number at the end.
    let at_start = usage(Usage {
        output: 1,
        web_searches: 0,
        ..reply.usage
    });
    let opening = message(reply, json!([]), Value::Null, at_start);
    let mut frames = vec![Frame::typed("message_start", json!({"message": opening}))];
    for (index, block) in blocks(reply).into_iter().enumerate() {
        frames.push(Frame::typed(
            "content_block_start",
            json!({"index": index, "content_block": block.empty}),
        ));
        for delta in block.deltas {
            frames.push(Frame::typed(
                "content_block_delta",
                json!({"index": index, "delta": delta}),
            ));
        }
        frames.push(Frame::typed("content_block_stop", json!({"index": index})));
    }
    let end = json!({"stop_reason": stop_reason(reply), "stop_sequence": null});
    frames.push(Frame::typed(
        "message_delta",
        json!({"delta": end, "usage": usage(reply.usage)}),
    ));
    frames.push(Frame::typed("message_stop", json!({})));
    frames
}

/// One content block in its three shapes.
struct Block {
    content: Value,
    empty: Value,
    deltas: Vec<Value>,
}

fn blocks(reply: &Reply<'_>) -> Vec<Block> {
    let mut blocks = Vec::new();
    if !reply.thinking.is_empty() {
        let pieces = reply.pieces(&reply.thinking).into_iter();
        let thoughts = pieces.map(|piece| json!({"type": "thinking_delta", "thinking": piece}));
        let signature = json!({"type": "signature_delta", "signature": SIGNATURE});
        blocks.push(Block {
            content: json!({"type": "thinking", "thinking": reply.thinking, "signature": SIGNATURE}),
            empty: json!({"type": "thinking", "thinking": "", "signature": ""}),
            deltas: thoughts.chain([signature]).collect(),
        });
    }
    if !reply.text.is_empty() {
        let pieces = reply.pieces(&reply.text).into_iter();
        blocks.push(Block {
            content: json!({"type": "text", "text": reply.text}),
            empty: json!({"type": "text", "text": ""}),
            deltas: pieces
                .map(|piece| json!({"type": "text_delta", "text": piece}))
                .collect(),
        });
    }
    for call in &reply.calls {
        let id = reply.ids.next("toolu_");
        let pieces = reply.pieces(&call.arguments.to_string()).into_iter();
        blocks.push(Block {
            content: json!({"type": "tool_use", "id": id, "name": call.name, "input": call.arguments}),
            empty: json!({"type": "tool_use", "id": id, "name": call.name, "input": {}}),
            deltas: pieces
                .map(|piece| json!({"type": "input_json_delta", "partial_json": piece}))
                .collect(),
        });
    }
    blocks
}

fn message(reply: &Reply<'_>, content: Value, stop_reason: Value, usage: Value) -> Value {
    json!({
        "id": reply.id("msg_"), "type": "message", "role": "assistant", "model": reply.model,
        "content": content, "stop_reason": stop_reason, "stop_sequence": null, "usage": usage,
    })
}

fn stop_reason<'r>(reply: &'r Reply<'_>) -> &'r str {
    reply.stop_reason("tool_use", "end_turn")
}

fn usage(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_creation,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.cache_creation.saturating_sub(usage.cache_creation_1h),
            "ephemeral_1h_input_tokens": usage.cache_creation_1h,
        },
        "output_tokens": usage.output,
        "server_tool_use": {"web_search_requests": usage.web_searches, "web_fetch_requests": 0},
        "service_tier": "standard",
    })
}
