//! The line protocol of gemini, as a pure state machine.
//!
//! Input: the lines of `gemini --output-format stream-json`. Output: [`AgentEvent`]s. The stream reports tokens only with the line that ends the work. The
//! session file has the tokens of each message during the work, and files next to it those of sub-agents (`chat`). A result waits until that file was read;
//! then the tokens of the result that the file lacks are added. Neither source reports money (AGENT-29).

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

/// Start of the error line with which the program gives up; it reports success nevertheless.
const LOOP_DETECTED: &str = "Loop detected";

/// Reads the output of one gemini process.
#[derive(Debug, Default)]
pub struct GeminiDecoder {
    prices: Arc<Prices>,
    session: Option<SessionId>,
    /// The driver reads the session file, so a result waits for that.
    is_recorded: bool,
    /// A line has reported some progress since the session file was last read.
    has_unread_news: bool,
    /// Usage of the messages of the session file.
    recorded: ProcessUsage,
    /// The part of `recorded` that no result includes yet, by model.
    uncovered: BTreeMap<String, TokenUsage>,
    /// Usage that results report beyond the session file.
    usage: UsageTotals,
    /// Tokens in the last result, by model: a later result includes them again (AGENT-31).
    reported: BTreeMap<String, TokenUsage>,
    /// The last result and its usage, until the session file was read.
    pending_result: Option<(Stats, AgentResult)>,
    /// More was paid than is known: a model has no price, a prompt may have been long, or an answer was cut off.
    misses_cost: bool,
    /// Why the program gave up.
    gave_up: Option<String>,
    speech: Speech,
    tools: OpenTools,
    /// The last result.
    last: Option<AgentResult>,
}

impl GeminiDecoder {
    /// Returns the decoder for a launch.
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
        // A line of an unknown kind does not end the text in progress (AGENT-33).
        let is_known = kind.is_some_and(|kind| KINDS.contains(&kind));
        if is_known && !is_piece {
            self.speech.flush(events);
        }
        // Chunks of a text are no reason to read the session file: they are frequent, and the file has a message only after its end.
        self.has_unread_news |= is_known && !is_piece;
        match kind {
            Some("init") => {
                events.extend(self.start_session(line.session_id.into_owned(), line.model.into_owned()))
            }
            Some("message") if line.role.as_deref() == Some("assistant") => {
                let text = line.content.as_deref().unwrap_or_default();
                self.speech.add(text, false, None, events);
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
                    .filter(|words| words.starts_with(LOOP_DETECTED))
                    .or(self.gave_up.take());
            }
            Some("result") => self.handle_result(line, events),
            _ => {}
        }
    }

    fn start_session(&mut self, id: Option<String>, model: Option<String>) -> Option<AgentEvent> {
        let started = session_started(&mut self.session, id, model)?;
        // Each process starts with `init`, also in a common log, and its results count from zero.
        self.reported.clear();
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
        // A provider that failed with a status has not answered; any other failure may have cut off an answer.
        self.misses_cost |= !success && error_status.is_none();
        let result = AgentResult {
            success,
            context_exceeded: !success && is_context_exceeded(&text),
            error_status,
            text,
            terminal_reason: line.status.into_owned(),
            ..AgentResult::default()
        };
        self.last = Some(result.clone());
        self.pending_result = Some((line.stats.0.unwrap_or_default(), result));
        if !self.is_recorded {
            self.report_result(events);
        }
    }

    /// Counts the usage of the pending result that the session file lacks, and reports the result.
    fn report_result(&mut self, events: &mut Vec<AgentEvent>) {
        let Some((stats, result)) = self.pending_result.take() else {
            return;
        };
        self.count_result(stats, events);
        let usage = self.totals();
        events.push(AgentEvent::Result(AgentResult { usage, ..result }));
    }

    /// Counts the tokens of a result that the session file lacks.
    fn count_result(&mut self, stats: Stats, events: &mut Vec<AgentEvent>) {
        // The increase since the last result, by model.
        let mut increase = BTreeMap::new();
        for (model, stats) in stats.models.0 {
            let reported = self.reported.entry(model.clone()).or_default();
            let whole = stats.0.unwrap_or_default().tokens().at_least(*reported);
            increase.insert(model, whole - std::mem::replace(reported, whole));
        }
        // The file names the model that was asked for, the result the one that answered, which is often a version with a longer name. So equal names
        // are matched first, then longer ones, then any.
        let matches: [fn(&str, &str) -> bool; 3] = [
            |answered, asked| answered == asked,
            |answered, asked| answered.starts_with(asked),
            |_, _| true,
        ];
        for is_match in matches {
            for (answered, tokens) in &mut increase {
                for (asked, recorded) in &mut self.uncovered {
                    if is_match(answered, asked) {
                        subtract_common(tokens, recorded);
                    }
                }
            }
        }
        for (model, tokens) in increase {
            if tokens != TokenUsage::ZERO {
                events.push(self.count_beyond_file(model, tokens));
            }
        }
        // If the file has more tokens than this result, the surplus must not be taken for a part of the next result.
        self.uncovered.clear();
    }

    /// Counts usage that no message of the session file has.
    fn count_beyond_file(&mut self, model: String, tokens: TokenUsage) -> AgentEvent {
        let billed = Billed::from(tokens);
        let price = self.prices.find(&model);
        let (cost, may_be_more) = price.map_or((Usd::ZERO, true), |(_, price)| {
            price.rate.price_of_several(&billed)
        });
        self.misses_cost |= may_be_more;
        let added = ModelUsage { tokens, cost };
        self.usage.add(&model, added);
        AgentEvent::Usage(MessageUsage {
            message_id: format!("run-{model}"),
            model,
            usage: added,
            added,
            // Counts as a message only if the session file has none.
            is_new: self.recorded.totals().tokens == TokenUsage::ZERO,
            is_lower_bound: self.misses_cost,
            // This usage is reported after all of it was spent, so a limit has nothing left to stop.
            is_unpriced: false,
            is_sum: true,
            parent_tool_use_id: None,
        })
    }

    /// Counts a message of the session file. The file repeats a message when its tools have answered; only the increase counts.
    fn count_message(&mut self, message: &RecordedMessage, parent: Option<&str>) -> Option<AgentEvent> {
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
            is_lower_bound: self.misses_cost || self.recorded.is_lower_bound(),
            is_unpriced: self.prices.find(model).is_none(),
            is_sum: false,
            parent_tool_use_id: parent.map(str::to_owned),
        }))
    }

    /// Returns the usage known so far.
    fn totals(&self) -> UsageTotals {
        let mut totals = self.recorded.totals();
        totals.merge(&self.usage);
        totals.lower_bound |= self.misses_cost;
        totals
    }

    /// Returns the usage if the process ends now. Without a result, the last request may have got an answer that nothing reports.
    fn totals_at_end(&self) -> UsageTotals {
        let mut totals = self.totals();
        totals.lower_bound |= self.session.is_some() && self.last.is_none();
        totals
    }
}

/// Subtracts from both the tokens that they have in common.
fn subtract_common(tokens: &mut TokenUsage, recorded: &mut TokenUsage) {
    let rest = *tokens - *recorded;
    *recorded = *recorded - *tokens;
    *tokens = rest;
}

/// Parses the HTTP status out of `[API Error: {"error":{"code":401,…`.
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
        // The usage of a pending result still counts; its event would be too late.
        self.report_result(&mut Vec::new());
        // A failed result without a text counts as missing, so that the exit and standard error give the reason.
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
        let is_open = self.last.is_none() || self.pending_result.is_some();
        let wanted = match records {
            RecordsScope::SoFar => self.is_recorded && self.has_unread_news && is_open,
            // A sub-agent is a tool; no line reports its work.
            RecordsScope::Meanwhile => self.is_recorded && is_open && !self.tools.is_empty(),
            RecordsScope::Whole => is_open,
        };
        self.session.as_ref().filter(|_| wanted)
    }

    /// Counts the messages of the session file, then the pending result.
    fn recall(&mut self, _: RecordsScope, recorded: Option<AgentRecords>, events: &mut Vec<AgentEvent>) {
        self.has_unread_news = false;
        if let Some(recorded) = recorded {
            for message in &recorded.messages {
                events.extend(self.count_message(message, None));
            }
            for message in &recorded.sub_agents {
                // The events need no more than a mark that a sub-agent wrote the message.
                events.extend(self.count_message(message, Some("sub-agent")));
            }
        }
        self.report_result(events);
    }
}
