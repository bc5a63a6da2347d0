//! What documents and events have in common (STATE-33).

use serde_json::Value;

use super::ContinuationReason;
use crate::agent::{FailureKind, InterruptedBy};
use crate::codon::{SentinelStatus, UnloadReason};
use crate::cost::Usd;
use crate::id::{CheckpointSha, CodonId, LoopId, RunId, SentinelId, SessionId};
use crate::shape::{Checker, Rule, any_object, kind_of, leaf, nullable, optional, required};
use crate::time::Timestamp;

pub(crate) const PLAN_ENTRY: &[Rule] = &[
    required("codon", any_object),
    required("codonId", leaf::<CodonId>),
    optional("loopContext", loop_context),
];

pub(crate) const TOKENS: &[Rule] = &[
    required("inputTokens", leaf::<u64>),
    required("outputTokens", leaf::<u64>),
    required("cacheCreationTokens", leaf::<u64>),
    required("cacheReadTokens", leaf::<u64>),
];

pub(crate) const FAILURE_REASON: &[Rule] = &[
    required("type", leaf::<FailureKind>),
    required("retriable", leaf::<bool>),
    optional("message", leaf::<String>),
    optional("retryAfterMs", leaf::<u64>),
    optional("retryAt", leaf::<Timestamp>),
    optional("interrupted", leaf::<bool>),
    optional("interruptedBy", leaf::<InterruptedBy>),
    optional("sentinelRefs", |checker, refs| {
        checker.list(refs, leaf::<String>);
    }),
];

const FRESH: &[Rule] = &[optional("initialCheckpointSha", leaf::<CheckpointSha>)];

const CONTINUATION: &[Rule] = &[
    required("source", |checker, source| checker.object(source, SOURCE)),
    optional("reason", leaf::<ContinuationReason>),
    optional("resumedSession", leaf::<SessionId>),
];

const SOURCE: &[Rule] = &[
    required("runId", leaf::<RunId>),
    nullable("afterCodon", |checker, id| {
        if id.as_str() != Some("") {
            leaf::<CodonId>(checker, id);
        }
    }),
    required("checkpointSha", leaf::<CheckpointSha>),
];

pub(crate) const PENDING_ROLLBACK: &[Rule] = &[
    required("source", |checker, source| checker.object(source, SOURCE)),
    optional("left", leaf::<CheckpointSha>),
    optional("safety", leaf::<CheckpointSha>),
    required("restored", leaf::<bool>),
];

const LOOP_CONTEXT: &[Rule] = &[
    required("loopId", leaf::<LoopId>),
    required("iteration", leaf::<u32>),
    required("codonIndexInLoop", leaf::<u32>),
];

const SENTINEL: &[Rule] = &[
    required("id", leaf::<SentinelId>),
    required("model", leaf::<String>),
    required("loadedAt", leaf::<Timestamp>),
    required("llmCallCount", leaf::<u64>),
    required("failedLLMCalls", leaf::<u64>),
    optional("lastLlmCallAt", leaf::<Timestamp>),
    optional("totalTriggers", leaf::<u64>),
    required("totalCost", leaf::<Usd>),
    required("status", leaf::<SentinelStatus>),
    optional("unloadedAt", leaf::<Timestamp>),
    optional("unloadReason", leaf::<UnloadReason>),
];

pub(crate) fn loop_context(checker: &mut Checker, value: &mut Value) {
    checker.object(value, LOOP_CONTEXT);
}

pub(crate) fn sentinel_list(checker: &mut Checker, value: &mut Value) {
    checker.list(value, |checker, sentinel| checker.object(sentinel, SENTINEL));
}

pub(crate) fn starting_conditions(checker: &mut Checker, value: &mut Value) {
    match value.get("type").and_then(Value::as_str) {
        Some("fresh") => checker.object(value, FRESH),
        Some("continuation") => checker.object(value, CONTINUATION),
        Some(other) => {
            let message = format!("must be `fresh` or `continuation`, not `{other}`");
            checker.within("type", |checker| checker.report(message));
        }
        None if value.is_object() => {
            checker.within("type", |checker| {
                checker.report("must be `fresh` or `continuation`")
            });
        }
        None => checker.report(format!("must be an object, not {}", kind_of(value))),
    }
}
