//! The line protocol of gemini, as a pure state machine.
//!
//! Input: the lines of `gemini --output-format stream-json`. Output: [`AgentEvent`]s. The stream reports tokens with the line that ends a run. The
//! session file has the tokens of each message during the run, and files next to it those of sub-agents (`chat`). Neither reports money (AGENT-29).

mod chat;
mod line;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::decoder::{AgentDecoder, AgentLine, ProcessEnd, session_started};
use crate::launch::Launch;
use crate::open_tools::OpenTools;
use crate::records::{AgentRecords, RecordedMessage, RecordsScope};
use crate::speech::Speech;
use hankweave_core::agent::ExitOutcome;
use hankweave_core::agent::classify::is_context_exceeded;
use hankweave_core::agent::{AgentEvent, AgentResult, MessageUsage, ToolResult};
use hankweave_core::cost::pricing::Prices;
use hankweave_core::cost::{Billed, ModelUsage, ProcessUsage, TokenUsage, UsageTotals, Usd};
use hankweave_core::id::SessionId;

pub use chat::GeminiChat;
use line::{Stats, StreamLine};

/// Model name of a run that uses the model of gemini's own settings.
pub const OWN_MODEL: &str = "gemini";

/// The kinds of lines that have a meaning.
const KINDS: [&str; 6] = ["init", "message", "tool_use", "tool_result", "error", "result"];

/// The program gives up with this word, and calls that a success.
const GIVES_UP: &str = "Loop detected";

/// Reads the output of one gemini process.
#[derive(Debug, Default)]
pub struct GeminiDecoder {
    prices: Arc<Prices>,
    session: Option<SessionId>,
    /// The driver reads the session file, so a result waits for it.
    is_recorded: bool,
    /// Something was done since the session file was read.
    news: bool,
    /// Usage of the messages of the session file.
    recorded: ProcessUsage,
    /// The part of it that no result has covered yet, by model.
    uncovered: BTreeMap<String, TokenUsage>,
    /// Usage that results report beyond the session file.
    usage: UsageTotals,
    /// Reported usage by model: a later result repeats it (AGENT-31).
    told: BTreeMap<String, TokenUsage>,
    /// A result that waits for the session file.
    waiting: Option<(Stats, AgentResult)>,
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
        let recorded = ProcessUsage::priced_by(prices.clone());
        Self {
            prices,
            recorded,
            ..self
        }
    }

    /// Marks a process whose session file is read in addition to its lines.
    #[must_use]
    pub fn recorded(self) -> Self {
        Self {
            is_recorded: true,
            ..self
        }
    }

    fn handle_line(&mut self, line: StreamLine<'_>, events: &mut Vec<AgentEvent>) {
        let kind = line.kind.as_deref();
        let is_piece = kind == Some("message") && line.delta.0;
        // A line of a new kind in the middle of a text is no end of it (AGENT-33).
        let is_known = kind.is_some_and(|kind| KINDS.contains(&kind));
        if is_known && !is_piece {
            self.speech.pause(events);
        }
        // Chunks of a text are frequent, and the file has a message only after its end.
        self.news |= is_known && !is_piece;
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
            Some("result") => self.handle_result(line, events),
            _ => {}
        }
    }

    fn started(&mut self, id: Option<String>, model: Option<String>) -> Option<AgentEvent> {
        let started = session_started(&mut self.session, id, model)?;
        self.told.clear();
        self.uncovered.clear();
        Some(started)
    }

    fn handle_result(&mut self, line: StreamLine<'_>, events: &mut Vec<AgentEvent>) {
        self.report_result(events);
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
            ..AgentResult::default()
        };
        self.last = Some(result.clone());
        self.waiting = Some((line.stats.0.unwrap_or_default(), result));
        if !self.is_recorded {
            self.report_result(events);
        }
    }

    /// Counts the usage of a result beyond the session file, and reports the result.
    fn report_result(&mut self, events: &mut Vec<AgentEvent>) {
        let Some((stats, result)) = self.waiting.take() else {
            return;
        };
        self.used(stats, events);
        let usage = self.totals();
        events.push(AgentEvent::Result(AgentResult { usage, ..result }));
    }

    fn used(&mut self, stats: Stats, events: &mut Vec<AgentEvent>) {
        let mut fresh = BTreeMap::new();
        for (model, stats) in stats.models.0 {
            let told = self.told.entry(model.clone()).or_default();
            let whole = stats.0.unwrap_or_default().tokens().at_least(*told);
            fresh.insert(model, whole - std::mem::replace(told, whole));
        }
        // The file has the model that was asked for, the result the one that answered: a version of it as a rule, under a longer name.
        let is_of: [fn(&str, &str) -> bool; 3] = [
            |answered, asked| answered == asked,
            |answered, asked| answered.starts_with(asked),
            |_, _| true,
        ];
        for is_of in is_of {
            for (answered, tokens) in &mut fresh {
                for (asked, recorded) in &mut self.uncovered {
                    if is_of(answered, asked) {
                        cover(tokens, recorded);
                    }
                }
            }
        }
        for (model, tokens) in fresh {
            if tokens != TokenUsage::ZERO {
                events.push(self.rest(model, tokens));
            }
        }
        // The rest of a message that a result reports with less usage than the file does not belong to the next result.
        self.uncovered.clear();
    }

    /// Counts usage that no message of the session file has.
    fn rest(&mut self, model: String, tokens: TokenUsage) -> AgentEvent {
        let billed = Billed::from(tokens);
        let price = self.prices.find(&model);
        let (cost, may_be_more) = price.map_or((Usd::ZERO, true), |(_, price)| {
            price.rate.price_of_several(&billed)
        });
        self.untold |= may_be_more;
        let added = ModelUsage { tokens, cost };
        self.usage.add(&model, added);
        AgentEvent::Usage(MessageUsage {
            message_id: format!("run-{model}"),
            model,
            usage: added,
            added,
            is_new: self.recorded.totals().tokens == TokenUsage::ZERO,
            is_lower_bound: self.untold,
            // This usage is reported after all of it was spent, so a limit has nothing left to stop.
            is_unpriced: false,
            is_sum: true,
            parent_tool_use_id: None,
        })
    }

    /// Counts a message of the session file, which is written again when its tools have answered.
    fn message(&mut self, message: &RecordedMessage, parent: Option<&str>) -> Option<AgentEvent> {
        let model = match message.model.is_empty() {
            true => OWN_MODEL,
            false => &message.model,
        };
        let counted = self
            .recorded
            .message(&message.id, model, message.billed, message.word)?;
        *self.uncovered.entry(model.to_owned()).or_default() += counted.added.tokens;
        Some(AgentEvent::Usage(MessageUsage {
            message_id: message.id.clone(),
            model: model.to_owned(),
            usage: counted.usage,
            added: counted.added,
            is_new: counted.is_new,
            is_lower_bound: self.untold || self.recorded.is_lower_bound(),
            is_unpriced: self.prices.find(model).is_none(),
            is_sum: false,
            parent_tool_use_id: parent.map(str::to_owned),
        }))
    }

    /// Everything that is known.
    fn totals(&self) -> UsageTotals {
        let mut totals = self.recorded.totals();
        totals.merge(&self.usage);
        totals.lower_bound |= self.untold;
        totals
    }

    /// A run that crashed may have asked for one more answer.
    fn totals_at_end(&self) -> UsageTotals {
        let mut totals = self.totals();
        totals.lower_bound |= self.session.is_some() && self.last.is_none();
        totals
    }
}

/// Takes off both what they have in common.
fn cover(tokens: &mut TokenUsage, recorded: &mut TokenUsage) {
    let rest = *tokens - *recorded;
    *recorded = *recorded - *tokens;
    *tokens = rest;
}

/// `[API Error: {"error":{"code":401,…`
fn status(words: &str) -> Option<u16> {
    let json = words.find('{').map(|start| &words[start..])?;
    let mut values = serde_json::Deserializer::from_str(json).into_iter::<Value>();
    let code = values.next()?.ok()?["error"]["code"].as_u64()?;
    u16::try_from(code).ok().filter(|code| (100..600).contains(code))
}

impl AgentDecoder for GeminiDecoder {
    fn decode(&mut self, line: AgentLine<'_>, events: &mut Vec<AgentEvent>) {
        if let Some(line) = line.read(events) {
            self.handle_line(line, events);
        }
    }

    fn finish(&mut self, end: ProcessEnd) -> ExitOutcome {
        self.report_result(&mut Vec::new());
        // A result that failed without an answer counts as missing.
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

    fn records_needed(&self, records: RecordsScope) -> Option<&SessionId> {
        let is_open = self.last.is_none() || self.waiting.is_some();
        let wanted = match records {
            RecordsScope::SoFar => self.is_recorded && self.news && is_open,
            // A sub-agent is a tool; no line reports its work.
            RecordsScope::Meanwhile => self.is_recorded && is_open && !self.tools.is_empty(),
            RecordsScope::Whole => is_open,
        };
        self.session.as_ref().filter(|_| wanted)
    }

    /// Reads the session file. A result that waits adds its usage beyond that of the file.
    fn recall(&mut self, _: RecordsScope, recorded: Option<AgentRecords>, events: &mut Vec<AgentEvent>) {
        self.news = false;
        if let Some(recorded) = recorded {
            for message in &recorded.messages {
                events.extend(self.message(message, None));
            }
            for message in &recorded.sub_agents {
                // The events need no more than a mark that a sub-agent wrote the message.
                events.extend(self.message(message, Some("sub-agent")));
            }
        }
        self.report_result(events);
    }
}
