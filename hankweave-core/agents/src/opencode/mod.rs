//! The line protocol of opencode, as a pure state machine.
//!
//! Input: the lines of `opencode run --format json`. Output: [`AgentEvent`]s. There is no line that ends the work: it has succeeded when its last step just
//! stopped and the program exits with 0 (AGENT-28).

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
    steps: u64,
    /// A step has begun and not ended.
    is_asking: bool,
    /// Usage of a model was paid for and not reported.
    untold: bool,
    said: String,
    last: Option<AgentResult>,
}

impl OpencodeDecoder {
    /// A decoder for one process with this model.
    #[must_use]
    pub fn new(model: &str) -> Self {
        Self {
            prices: Arc::default(),
            model: model.to_owned(),
            session: None,
            usage: UsageTotals::default(),
            ended_steps: MessageIds::default(),
            steps: 0,
            is_asking: false,
            untold: false,
            said: String::new(),
            last: None,
        }
    }

    /// The decoder of what is launched.
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
                // An answer whose connection was lost is asked for again, and the lost one may have been paid for.
                self.untold |= self.is_asking;
                self.is_asking = true;
                self.last = None;
            }
            Some("text") if part.goes_on_shortened() => events.push(AgentEvent::Compacted),
            Some("text") => events.extend(part.text.into_owned().map(|text| {
                self.said.clone_from(&text);
                AgentEvent::message(text)
            })),
            Some("reasoning") => events.extend(part.text.into_owned().map(AgentEvent::thinking)),
            Some("tool_use") => {
                // No line reports the usage of a sub-agent.
                self.untold |= part.tool.as_deref() == Some("task");
                tool(part, events);
            }
            Some("step_finish") => self.stepped(&part, events),
            Some("error") => self.failed(line.error.0.unwrap_or_default(), events),
            _ => {}
        }
    }

    fn stepped(&mut self, part: &Part<'_>, events: &mut Vec<AgentEvent>) {
        self.is_asking = false;
        self.steps += 1;
        if part.id.as_deref().is_none_or(|id| self.ended_steps.insert(id)) {
            events.extend(self.used(part));
        }
        let stop = part.reason.as_deref().unwrap_or_default().to_owned();
        if stop == "tool-calls" {
            return;
        }
        let success = matches!(stop.as_str(), "stop" | "length");
        self.result(
            AgentResult {
                success,
                text: self.said.clone(),
                terminal_reason: Some(stop),
                ..AgentResult::default()
            },
            events,
        );
    }

    fn used(&mut self, part: &Part<'_>) -> Option<AgentEvent> {
        let billed = part.billed();
        // A price that the user gives comes first.
        let given = self.prices.given_for(&self.model).map(|rate| rate.price(&billed));
        let stated = part.cost().filter(|cost| *cost > Usd::ZERO);
        let cost = given
            .or(stated)
            .or_else(|| billed.price(&self.model, &self.prices));
        let is_unpriced = cost.is_none() && billed.tokens != TokenUsage::ZERO;
        self.untold |= is_unpriced;
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
            message_id: id.unwrap_or_else(|| format!("step-{}", self.steps)),
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

    fn failed(&mut self, failure: Failure<'_>, events: &mut Vec<AgentEvent>) {
        // An answer that was cut off may have been paid for; a request that was refused costs nothing.
        self.untold |= self.is_asking;
        self.is_asking = false;
        let data = failure.data.0.unwrap_or_default();
        let status = data.status_code.0.and_then(|status| u16::try_from(status).ok());
        let name = failure.name.into_owned().unwrap_or_default();
        let message = data.message.into_owned().unwrap_or_else(|| name.clone());
        let text = match status {
            Some(status) => format!("{status} {message}"),
            None => message,
        };
        self.result(
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

    fn result(&mut self, result: AgentResult, events: &mut Vec<AgentEvent>) {
        let usage = self.totals();
        self.last = Some(result.clone());
        events.push(AgentEvent::Result(AgentResult { usage, ..result }));
    }

    fn is_lower_bound(&self) -> bool {
        self.is_asking || self.untold
    }

    fn totals(&self) -> UsageTotals {
        UsageTotals {
            lower_bound: self.is_lower_bound(),
            ..self.usage.clone()
        }
    }
}

/// Reports a tool call; opencode prints the call after its tool has answered.
fn tool(part: Part<'_>, events: &mut Vec<AgentEvent>) {
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
        let verdict = end.verdict(self.last.as_ref(), "step", self.session.is_some());
        end.outcome(verdict, self.totals(), self.last.is_some())
    }

    fn usage(&self) -> UsageTotals {
        self.totals()
    }

    /// Opencode reports everything on its output. Records are needed only if the process ended without a result that was read.
    fn records_needed(&self, records: RecordsScope) -> Option<&SessionId> {
        let wanted = records == RecordsScope::Whole && self.last.is_none();
        self.session.as_ref().filter(|_| wanted)
    }
}
