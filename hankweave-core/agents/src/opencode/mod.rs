//! The line protocol of opencode, as a pure state machine.
//!
//! Input: the lines of `opencode run --format json`. Output: [`AgentEvent`]s. A step is one answer of the model, with its tool calls. No line reports the end
//! of the work: it has succeeded if the last step ended with the reason `stop` or `length` and the program exits with 0 (AGENT-28).

mod line;

use std::sync::Arc;

use serde_json::Value;

use crate::decoder::{AgentDecoder, AgentLine, ProcessEnd, session_started};
use crate::launch::Launch;
use crate::records::RecordsScope;
use hankweave_core::agent::ExitOutcome;
use hankweave_core::agent::classify::is_context_exceeded;
use hankweave_core::agent::{AgentEvent, AgentResult, MessageUsage, ToolResult};
use hankweave_core::cost::pricing::Prices;
use hankweave_core::cost::{MessageIds, ModelUsage, TokenUsage, UsageTotals, Usd};
use hankweave_core::id::SessionId;

use line::{Failure, Part, StreamLine};

/// Model name of a run that uses the model of opencode's own settings.
pub const OWN_MODEL: &str = "opencode";

/// Reads the output of one opencode process.
#[derive(Debug)]
pub struct OpencodeDecoder {
    prices: Arc<Prices>,
    /// The model, which no line names.
    model: String,
    session: Option<SessionId>,
    usage: UsageTotals,
    /// Ids of the steps that have ended. A step that is reported twice counts once (AGENT-31).
    ended_steps: MessageIds,
    /// Number of ended steps; names the usage of a step whose message has no id.
    step_count: u64,
    /// A step has begun and not ended.
    in_step: bool,
    /// Usage of a model was paid for and not reported.
    misses_cost: bool,
    /// The last text of the model.
    last_text: String,
    /// How the last step ended, unless it waits for tools or another one has begun.
    last_result: Option<AgentResult>,
}

impl OpencodeDecoder {
    /// Returns a decoder for one process with this model.
    #[must_use]
    pub fn new(model: &str) -> Self {
        Self {
            prices: Arc::default(),
            model: model.to_owned(),
            session: None,
            usage: UsageTotals::default(),
            ended_steps: MessageIds::default(),
            step_count: 0,
            in_step: false,
            misses_cost: false,
            last_text: String::new(),
            last_result: None,
        }
    }

    /// Returns the decoder for a launch.
    #[must_use]
    pub fn of(launch: &Launch) -> Self {
        Self::new(&launch.model).priced_by(launch.prices.clone())
    }

    /// Uses `prices` instead of the list prices.
    #[must_use]
    pub fn priced_by(self, prices: Arc<Prices>) -> Self {
        Self { prices, ..self }
    }

    fn handle_line(&mut self, line: StreamLine<'_>, events: &mut Vec<AgentEvent>) {
        if self.session.is_none() {
            events.extend(session_started(
                &mut self.session,
                line.session.into_owned(),
                None,
            ));
        }
        let part = line.part.0.unwrap_or_default();
        match line.kind.as_deref() {
            Some("step_start") => {
                // A step that has not ended lost its connection and is repeated; the lost answer may have been paid for.
                self.misses_cost |= self.in_step;
                self.in_step = true;
                self.last_result = None;
            }
            Some("text") if part.follows_summary() => events.push(AgentEvent::Compacted),
            Some("text") => events.extend(part.text.into_owned().map(|text| {
                self.last_text.clone_from(&text);
                AgentEvent::message(text)
            })),
            Some("reasoning") => events.extend(part.text.into_owned().map(AgentEvent::thinking)),
            Some("tool_use") => {
                // No line reports the usage of a sub-agent.
                self.misses_cost |= part.tool.as_deref() == Some("task");
                report_tool(part, events);
            }
            Some("step_finish") => self.end_step(&part, events),
            Some("error") => self.handle_error(line.error.0.unwrap_or_default(), events),
            _ => {}
        }
    }

    fn end_step(&mut self, part: &Part<'_>, events: &mut Vec<AgentEvent>) {
        self.in_step = false;
        self.step_count += 1;
        if part.id.as_deref().is_none_or(|id| self.ended_steps.insert(id)) {
            events.extend(self.count_step(part));
        }
        let stop = part.reason.as_deref().unwrap_or_default().to_owned();
        if stop == "tool-calls" {
            return;
        }
        let success = matches!(stop.as_str(), "stop" | "length");
        self.report_result(
            AgentResult {
                success,
                text: self.last_text.clone(),
                terminal_reason: Some(stop),
                ..AgentResult::default()
            },
            events,
        );
    }

    fn count_step(&mut self, part: &Part<'_>) -> Option<AgentEvent> {
        let billed = part.billed();
        // A price that the user gives comes first.
        let given = self.prices.given_for(&self.model).map(|rate| rate.price(&billed));
        let stated = part.cost().filter(|cost| *cost > Usd::ZERO);
        let cost = given
            .or(stated)
            .or_else(|| billed.price(&self.model, &self.prices));
        let is_unpriced = cost.is_none() && billed.tokens != TokenUsage::ZERO;
        self.misses_cost |= is_unpriced;
        let added = ModelUsage {
            tokens: billed.tokens,
            cost: cost.unwrap_or(Usd::ZERO),
        };
        if added == ModelUsage::default() {
            return None;
        }
        self.usage.add(&self.model, added);
        let id = part.message.as_deref().map(str::to_owned);
        Some(AgentEvent::Usage(MessageUsage {
            message_id: id.unwrap_or_else(|| format!("step-{}", self.step_count)),
            model: self.model.clone(),
            usage: added,
            added,
            is_new: true,
            is_lower_bound: self.is_lower_bound(),
            is_unpriced,
            is_sum: false,
            parent_tool_use_id: None,
        }))
    }

    fn handle_error(&mut self, failure: Failure<'_>, events: &mut Vec<AgentEvent>) {
        // The answer of an open step was cut off and may have been paid for; a request that was refused costs nothing.
        self.misses_cost |= self.in_step;
        self.in_step = false;
        let data = failure.data.0.unwrap_or_default();
        let status = data.status_code.0.and_then(|status| u16::try_from(status).ok());
        let name = failure.name.into_owned().unwrap_or_default();
        let message = data.message.into_owned().unwrap_or_else(|| name.clone());
        let text = match status {
            Some(status) => format!("{status} {message}"),
            None => message,
        };
        self.report_result(
            AgentResult {
                success: false,
                context_exceeded: is_context_exceeded(&text),
                text,
                error_status: status,
                terminal_reason: Some(name),
                ..AgentResult::default()
            },
            events,
        );
    }

    fn report_result(&mut self, result: AgentResult, events: &mut Vec<AgentEvent>) {
        let usage = self.totals();
        self.last_result = Some(result.clone());
        events.push(AgentEvent::Result(AgentResult { usage, ..result }));
    }

    fn is_lower_bound(&self) -> bool {
        self.in_step || self.misses_cost
    }

    fn totals(&self) -> UsageTotals {
        UsageTotals {
            lower_bound: self.is_lower_bound(),
            ..self.usage.clone()
        }
    }
}

/// Reports a tool call and its result: opencode prints one line for both, after the tool has answered.
fn report_tool(part: Part<'_>, events: &mut Vec<AgentEvent>) {
    let (Some(id), Some(name)) = (part.call.into_owned(), part.tool.into_owned()) else {
        return;
    };
    let state = part.state.0.unwrap_or_default();
    let is_error = state.status.as_deref() == Some("error");
    let input = match state.input {
        Value::Null => Value::Object(serde_json::Map::new()),
        input => input,
    };
    events.push(AgentEvent::tool_use(id.clone(), name.clone(), input));
    let answer = if is_error { state.error } else { state.output };
    let answer = answer.into_owned().unwrap_or_default();
    events.push(AgentEvent::ToolResult(ToolResult::new(
        id,
        Some(name),
        answer,
        is_error,
    )));
}

impl AgentDecoder for OpencodeDecoder {
    fn decode(&mut self, line: AgentLine<'_>, events: &mut Vec<AgentEvent>) {
        if let Some(line) = line.read(events) {
            self.handle_line(line, events);
        }
    }

    fn finish(&mut self, end: ProcessEnd) -> ExitOutcome {
        let verdict = end.verdict(self.last_result.as_ref(), "step", self.session.is_some());
        end.outcome(verdict, self.totals(), self.last_result.is_some())
    }

    fn usage(&self) -> UsageTotals {
        self.totals()
    }

    /// Opencode reports everything on its output. Records are needed only if the process ended without a result that was read.
    fn records_needed(&self, records: RecordsScope) -> Option<&SessionId> {
        let wanted = records == RecordsScope::Whole && self.last_result.is_none();
        self.session.as_ref().filter(|_| wanted)
    }
}
