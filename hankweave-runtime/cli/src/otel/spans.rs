//! Turns events into spans: one trace for each run, with spans for codons, attempts and tool calls, named by OpenTelemetry's conventions for generative
//! AI. [`Spans::add`] takes one event after the other, without input or output. No span contains what agents said.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use hankweave_core::cost::{TokenUsage, Usd};
use hankweave_core::event::StateEvent;
use hankweave_core::id::{CodonId, RunId};
use hankweave_core::time::Timestamp;
use hankweave_core::view::{AttemptKey, AttemptState, RunState, RunView};
use hankweave_core::wire::{AgentAction, Event, JournalEntry};
use serde_json::{Value, json};

/// Largest number of open spans of tool calls; calls beyond it have no span.
const OPEN_TOOLS: usize = 1_000;

/// A span that has ended, as OTLP writes it in JSON.
pub(super) type Span = Value;

/// Spans ended by an event.
#[derive(Debug, Default)]
pub(super) struct EndedSpans {
    pub(super) spans: Vec<Span>,
    /// Attempts whose spans have ended, for the metrics.
    pub(super) attempts: Vec<AttemptUsage>,
}

/// Usage of an attempt.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct AttemptUsage {
    pub(super) model: Option<String>,
    pub(super) began: Timestamp,
    pub(super) ended: Timestamp,
    pub(super) tokens: TokenUsage,
    pub(super) cost: Usd,
    pub(super) failed: bool,
}

/// Open spans of the current run.
#[derive(Debug, Default)]
pub(super) struct Spans {
    /// View of the run so far, as screens draw it: has the usage and the outcomes.
    view: RunView,
    run: Option<OpenSpan>,
    codon: Option<(CodonId, OpenSpan)>,
    attempt: Option<AttemptSpan>,
    /// Open tool calls by their ids.
    tools: HashMap<String, ToolSpan>,
    /// Number of spans so far, for their ids.
    count: u64,
}

/// A span that has not ended.
#[derive(Debug, Clone)]
struct OpenSpan {
    id: String,
    began: Timestamp,
}

#[derive(Debug)]
struct AttemptSpan {
    span: OpenSpan,
    /// Key of the attempt in the view: when its span ends, the view may already have a newer attempt.
    key: Option<AttemptKey>,
    session: Option<String>,
}

#[derive(Debug)]
struct ToolSpan {
    span: OpenSpan,
    /// Number of the span, to order the open ones.
    number: u64,
    name: String,
    /// Id of the tool call that has started the sub-agent which makes this call.
    parent: Option<String>,
}

impl Spans {
    /// Adds an event; returns the spans that it has ended.
    pub(super) fn add(&mut self, entry: &JournalEntry) -> EndedSpans {
        self.view.take(entry);
        let (mut ended, at) = (EndedSpans::default(), entry.timestamp);
        match &entry.event {
            Event::StateTransition { transition, .. } => self.transition(transition, at, &mut ended),
            Event::CodonStarted { session_id, .. } => {
                if let Some(attempt) = &mut self.attempt {
                    attempt.session = Some(session_id.as_str().to_owned());
                }
            }
            Event::AssistantAction {
                action: AgentAction::ToolUse,
                tool_name: Some(name),
                tool_use_id: Some(id),
                parent_tool_use_id: parent,
                ..
            } if self.tools.len() < OPEN_TOOLS => {
                let tool = ToolSpan {
                    span: self.open(at),
                    number: self.count,
                    name: name.clone(),
                    parent: parent.clone(),
                };
                self.tools.insert(id.clone(), tool);
            }
            Event::ToolResult {
                tool_use_id,
                is_error,
                ..
            } => ended.spans.extend(self.end_tool(tool_use_id, *is_error, at)),
            Event::CodonCompleted { .. } => self.end_attempt(at, &mut ended),
            _ => {}
        }
        ended
    }

    fn transition(&mut self, event: &StateEvent, at: Timestamp, ended: &mut EndedSpans) {
        match event {
            StateEvent::RunStarted { .. } => self.run = Some(self.open(at)),
            StateEvent::CodonStarted { codon_id, .. } => {
                self.end_attempt(at, ended);
                if self.codon.as_ref().is_none_or(|(known, _)| known != codon_id) {
                    self.end_codon(at, ended);
                    self.codon = Some((codon_id.clone(), self.open(at)));
                }
                self.attempt = Some(AttemptSpan {
                    span: self.open(at),
                    key: self.view.newest_attempt(codon_id).map(|(key, _)| key),
                    session: None,
                });
            }
            StateEvent::RunCompleted { .. }
            | StateEvent::RunFailed { .. }
            | StateEvent::RunCrashed { .. } => self.end_run(at, ended),
            _ => {}
        }
    }

    /// Ends the span of a tool call, if that has one.
    fn end_tool(&mut self, id: &str, is_error: bool, at: Timestamp) -> Option<Span> {
        let tool = self.tools.remove(id)?;
        // The call of a sub-agent belongs to the tool call that has started the sub-agent, every other one to the attempt.
        let parent = tool.parent.as_ref().and_then(|parent| self.tools.get(parent));
        let parent = parent.map(|parent| parent.span.id.clone());
        let parent = parent.or_else(|| Some(self.attempt.as_ref()?.span.id.clone()));
        let attributes = [
            text("gen_ai.operation.name", "execute_tool"),
            text("gen_ai.tool.name", &tool.name),
            text("gen_ai.tool.call.id", id),
        ];
        let error = is_error.then_some("tool_error");
        let name = format!("execute_tool {}", tool.name);
        Some(self.span(&tool.span, parent, &name, at, attributes.into(), error))
    }

    /// Ends the span of the running attempt, and before it those of its open tool calls, as failed.
    fn end_attempt(&mut self, now: Timestamp, ended: &mut EndedSpans) {
        let open = self.tools.iter();
        let mut open: Vec<(u64, String)> = open.map(|(id, tool)| (tool.number, id.clone())).collect();
        // The newest first: a call of a sub-agent ends before the call that has started the sub-agent, whose span it needs.
        open.sort_unstable_by_key(|(number, _)| Reverse(*number));
        let failed = open.iter().filter_map(|(_, id)| self.end_tool(id, true, now));
        ended.spans.extend(failed);
        let (Some(AttemptSpan { span, key, session }), Some((codon, parent))) =
            (self.attempt.take(), &self.codon)
        else {
            return;
        };
        let known = key.and_then(|key| self.view.attempt(codon.configured(), key));
        let attempt = known.cloned().unwrap_or_default();
        let at = attempt.ended.unwrap_or(now);
        let state = match attempt.state {
            // The attempt ends without an event of its own end.
            AttemptState::Running => AttemptState::Crashed,
            ended => ended,
        };
        let (tokens, cost) = (attempt.tokens, attempt.spent());
        let mut attributes = vec![
            text("gen_ai.operation.name", "invoke_agent"),
            text("gen_ai.agent.name", codon.as_str()),
            text("hankweave.codon.status", state.as_str()),
            number("gen_ai.usage.input_tokens", prompt(&tokens)),
            number("gen_ai.usage.output_tokens", tokens.output_tokens),
            number("gen_ai.usage.cache_read.input_tokens", tokens.cache_read_tokens),
            number(
                "gen_ai.usage.cache_creation.input_tokens",
                tokens.cache_creation_tokens,
            ),
            dollars(cost),
        ];
        if let Some(model) = &attempt.model {
            attributes.push(text("gen_ai.request.model", model));
            attributes.push(text("gen_ai.provider.name", provider(model)));
        }
        attributes.extend(session.map(|session| text("gen_ai.conversation.id", &session)));
        let failed = matches!(state, AttemptState::Failed | AttemptState::Crashed);
        let kind = attempt.why.map(|why| json!(why.kind));
        let kind = kind.and_then(|kind| Some(kind.as_str()?.to_owned()));
        let error = failed.then(|| kind.unwrap_or_else(|| "unknown".to_owned()));
        let name = format!("invoke_agent {codon}");
        let parent = Some(parent.id.clone());
        let ended_span = self.span(&span, parent, &name, at, attributes, error.as_deref());
        ended.spans.push(ended_span);
        ended.attempts.push(AttemptUsage {
            model: attempt.model,
            began: span.began,
            ended: at,
            tokens,
            cost,
            failed,
        });
    }

    fn end_codon(&mut self, at: Timestamp, ended: &mut EndedSpans) {
        let Some((codon, span)) = self.codon.take() else {
            return;
        };
        let attributes = vec![text("hankweave.codon.id", codon.as_str())];
        let parent = self.run.as_ref().map(|run| run.id.clone());
        let name = format!("codon {codon}");
        ended
            .spans
            .push(self.span(&span, parent, &name, at, attributes, None));
    }

    fn end_run(&mut self, at: Timestamp, ended: &mut EndedSpans) {
        self.end_attempt(at, ended);
        self.end_codon(at, ended);
        let Some(run) = self.run.take() else { return };
        let state = self.view.state;
        let attributes = vec![
            text("gen_ai.operation.name", "invoke_workflow"),
            text("hankweave.run.id", self.run_id().map_or("", RunId::as_str)),
            text("hankweave.run.end", state.as_str()),
        ];
        let error = matches!(state, RunState::Failed | RunState::Crashed).then(|| state.as_str());
        let span = self.span(&run, None, "run", at, attributes, error);
        ended.spans.push(span);
    }

    fn run_id(&self) -> Option<&RunId> {
        Some(&self.view.run.as_ref()?.id)
    }

    /// Starts a span with an id of its own.
    fn open(&mut self, began: Timestamp) -> OpenSpan {
        self.count += 1;
        // OpenTelemetry forbids an id of zeros.
        let id = format!("{:016x}", self.hash(self.count).max(1));
        OpenSpan { id, began }
    }

    /// Returns a number for ids that depends only on the run and `part`, so that two readers of a run's events make equal ids.
    fn hash(&self, part: u64) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.run_id().map(RunId::as_str), part).hash(&mut hasher);
        hasher.finish()
    }

    /// Returns an ended span in the JSON of OTLP.
    fn span(
        &self,
        span: &OpenSpan,
        parent: Option<String>,
        name: &str,
        ended: Timestamp,
        mut attributes: Vec<Value>,
        error: Option<&str>,
    ) -> Span {
        attributes.extend(error.map(|error| text("error.type", error)));
        // The kind 1 is an internal span, the status code 2 an error.
        let mut json = json!({
            "traceId": format!("{:016x}{:016x}", self.hash(u64::MAX).max(1), self.hash(u64::MAX - 1)),
            "spanId": span.id,
            "name": name,
            "kind": 1,
            "startTimeUnixNano": nanos(span.began),
            "endTimeUnixNano": nanos(ended),
            "attributes": attributes,
            "status": error.map_or_else(|| json!({}), |_| json!({"code": 2})),
        });
        if let Some(parent) = parent {
            json["parentSpanId"] = json!(parent);
        }
        json
    }
}

/// Returns all input tokens of the model, caches included, as the conventions count them.
pub(super) fn prompt(tokens: &TokenUsage) -> u64 {
    tokens.total().saturating_sub(tokens.output_tokens)
}

/// Returns the provider of a model, from its name, as the conventions spell it.
pub(super) fn provider(model: &str) -> &'static str {
    match model {
        model if model.contains("claude") => "anthropic",
        model if model.starts_with("gpt") => "openai",
        model if model.contains("gemini") => "gcp.gemini",
        _ => "unknown",
    }
}

/// Returns nanoseconds since 1970, as text: numbers of JSON are not precise enough.
pub(super) fn nanos(at: Timestamp) -> String {
    format!("{}000000", at.as_millis().max(0))
}

pub(super) fn text(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

fn number(key: &str, value: u64) -> Value {
    json!({"key": key, "value": {"intValue": value.to_string()}})
}

fn dollars(cost: Usd) -> Value {
    json!({"key": "hankweave.cost.usd", "value": {"doubleValue": cost.as_dollars()}})
}
