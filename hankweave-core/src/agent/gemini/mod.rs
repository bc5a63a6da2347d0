//! The line protocol of gemini, as a pure state machine.
//!
//! Input: the lines of `gemini --output-format stream-json`. Output: [`AgentEvent`]s. Tokens are told by the line that ends a run, and money not at all
//! (AGENT-29).

mod line;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::classify::is_context_exceeded;
use super::decoder::{AgentDecoder, AgentLine, ProcessEnd, session_started};
use super::event::{AgentEvent, AgentResult, MessageUsage, ToolResult};
use super::launch::Launch;
use super::open_tools::OpenTools;
use super::outcome::ExitOutcome;
use super::records::RecordsScope;
use super::speech::Speech;
use crate::cost::pricing::Prices;
use crate::cost::{Billed, ModelUsage, TokenUsage, UsageTotals, Usd};
use crate::id::SessionId;

use line::{Stats, StreamLine};

/// The model that stands for the one of gemini's own settings.
pub const OWN_MODEL: &str = "gemini";

/// The kinds of lines that say something.
const KINDS: [&str; 6] = ["init", "message", "tool_use", "tool_result", "error", "result"];

/// The program gives up with this word, and calls that a success.
const GIVES_UP: &str = "Loop detected";

/// Reads the output of one gemini process.
#[derive(Debug, Default)]
pub struct GeminiDecoder {
    prices: Arc<Prices>,
    session: Option<SessionId>,
    usage: UsageTotals,
    /// Reported usage by model: a later result repeats it (AGENT-31).
    told: BTreeMap<String, TokenUsage>,
    /// More was paid than is known: a model has no price, a prompt may have been long, or an answer was cut off.
    untold: bool,
    /// Why the program gave up.
    gave_up: Option<String>,
    speech: Speech,
    tools: OpenTools,
    last: Option<AgentResult>,
}

impl GeminiDecoder {
    /// The decoder of what is launched.
    #[must_use]
    pub fn of(launch: &Launch) -> Self {
        Self::default().priced_by(launch.prices.clone())
    }

    /// Uses `prices` instead of the list prices.
    #[must_use]
    pub fn priced_by(self, prices: Arc<Prices>) -> Self {
        Self { prices, ..self }
    }

    fn said(&mut self, line: StreamLine<'_>, events: &mut Vec<AgentEvent>) {
        let kind = line.kind.as_deref();
        let is_piece = kind == Some("message") && line.delta.0;
        // A line of a new kind in the middle of a text is no end of it (AGENT-33).
        let is_known = kind.is_some_and(|kind| KINDS.contains(&kind));
        if is_known && !is_piece {
            self.speech.pause(events);
        }
        match kind {
            Some("init") => {
                events.extend(self.started(line.session_id.into_owned(), line.model.into_owned()))
            }
            Some("message") if line.role.as_deref() == Some("assistant") => {
                let text = line.content.as_deref().unwrap_or_default();
                self.speech.piece(text, false, None, events);
            }
            Some("tool_use") => {
                let id = line.tool_id.into_owned().unwrap_or_default();
                let name = line.tool_name.into_owned().unwrap_or_default();
                self.tools.insert(&id, &name);
                events.push(AgentEvent::tool_use(id, name, line.parameters));
            }
            Some("tool_result") => {
                let id = line.tool_id.into_owned().unwrap_or_default();
                let name = self.tools.remove(&id);
                let is_error = line.status.as_deref() == Some("error");
                let error = line.error.0.and_then(|error| error.message.into_owned());
                let answer = line.output.into_owned().or(error).unwrap_or_default();
                events.push(AgentEvent::ToolResult(ToolResult::new(
                    id, name, answer, is_error,
                )));
            }
            Some("error") => {
                let words = line.message.into_owned();
                self.gave_up = words
                    .filter(|words| words.starts_with(GIVES_UP))
                    .or(self.gave_up.take());
            }
            Some("result") => self.ended(line, events),
            _ => {}
        }
    }

    fn started(&mut self, id: Option<String>, model: Option<String>) -> Option<AgentEvent> {
        let started = session_started(&mut self.session, id, model)?;
        self.told.clear();
        Some(started)
    }

    fn ended(&mut self, line: StreamLine<'_>, events: &mut Vec<AgentEvent>) {
        self.used(line.stats.0.unwrap_or_default(), events);
        let success = line.status.as_deref() == Some("success") && self.gave_up.is_none();
        let error = line.error.0.and_then(|error| error.message.into_owned());
        let error = self.gave_up.take().or(error);
        let text = match success {
            true => self.speech.last().to_owned(),
            false => error.unwrap_or_default(),
        };
        let error_status = if success { None } else { status(&text) };
        // A provider that has refused with a status has not answered; any other answer may have been cut off.
        self.untold |= !success && error_status.is_none();
        let result = AgentResult {
            success,
            context_exceeded: !success && is_context_exceeded(&text),
            error_status,
            text,
            terminal_reason: line.status.into_owned(),
            usage: self.totals(),
            ..AgentResult::default()
        };
        self.last = Some(result.clone());
        events.push(AgentEvent::Result(result));
    }

    fn used(&mut self, stats: Stats, events: &mut Vec<AgentEvent>) {
        for (model, stats) in stats.models.0 {
            let told = self.told.entry(model.clone()).or_default();
            let whole = stats.0.unwrap_or_default().tokens().at_least(*told);
            let tokens = whole - std::mem::replace(told, whole);
            if tokens == TokenUsage::ZERO {
                continue;
            }
            let billed = Billed::from(tokens);
            let price = self.prices.find(&model);
            let (cost, may_be_more) = price.map_or((Usd::ZERO, true), |(_, price)| {
                price.rate.price_of_several(&billed)
            });
            self.untold |= may_be_more;
            let added = ModelUsage { tokens, cost };
            self.usage.add(&model, added);
            events.push(AgentEvent::Usage(MessageUsage {
                message_id: format!("run-{model}"),
                model,
                usage: added,
                added,
                is_new: true,
                is_lower_bound: self.untold,
                // It is told when everything is spent, so nothing is left to be stopped.
                is_unpriced: false,
                parent_tool_use_id: None,
            }));
        }
    }

    /// A run that was cut off has not told what it used.
    fn totals(&self) -> UsageTotals {
        UsageTotals {
            lower_bound: self.untold,
            ..self.usage.clone()
        }
    }

    fn totals_at_end(&self) -> UsageTotals {
        let mut totals = self.totals();
        totals.lower_bound |= self.session.is_some() && self.last.is_none();
        totals
    }
}

/// `[API Error: {"error":{"code":401,…`
fn status(words: &str) -> Option<u16> {
    let json = words.find('{').map(|start| &words[start..])?;
    let mut values = serde_json::Deserializer::from_str(json).into_iter::<Value>();
    let code = values.next()?.ok()?["error"]["code"].as_u64()?;
    u16::try_from(code).ok().filter(|code| (100..600).contains(code))
}

impl AgentDecoder for GeminiDecoder {
    fn hear(&mut self, line: AgentLine<'_>, events: &mut Vec<AgentEvent>) {
        if let Some(line) = line.read(events) {
            self.said(line, events);
        }
    }

    fn finish(&mut self, end: ProcessEnd) -> ExitOutcome {
        // One that failed without a word is one that has said nothing.
        let last = self
            .last
            .as_ref()
            .filter(|last| last.success || !last.text.is_empty());
        let verdict = end.verdict(last, "run", self.session.is_some());
        end.outcome(verdict, self.totals_at_end(), self.last.is_some())
    }

    fn usage(&self) -> UsageTotals {
        self.totals_at_end()
    }

    /// Nothing else tells what a run used that has not ended.
    fn wants(&self, records: RecordsScope) -> Option<&SessionId> {
        let wanted = records == RecordsScope::Whole && self.last.is_none();
        self.session.as_ref().filter(|_| wanted)
    }
}
