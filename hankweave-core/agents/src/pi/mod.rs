//! The line protocol of pi, as a pure state machine.
//!
//! Input: the lines of `pi -p --mode json`, of the versions 0.73, 0.87 and 1.6. Output: [`AgentEvent`]s. The program exits with 0 even if its work
//! failed, so the reason with which its last message stopped decides (AGENT-20).

mod line;

use std::sync::Arc;

use crate::decoder::{AgentDecoder, AgentLine, ProcessEnd, session_started};
use crate::launch::Launch;
use crate::lenient::{List, Object};
use crate::records::RecordsScope;
use hankweave_core::agent::ExitOutcome;
use hankweave_core::agent::classify::is_context_exceeded;
use hankweave_core::agent::{AgentEvent, AgentResult, MessageUsage, ToolResult};
use hankweave_core::cost::pricing::Prices;
use hankweave_core::cost::{MessageIds, ModelUsage, TokenUsage, UsageTotals, Usd};
use hankweave_core::id::SessionId;

use line::{Block, Message, StreamLine, Usage};

/// Model name of a run that uses the model of pi's own settings.
pub const OWN_MODEL: &str = "pi";

/// Reads the output of one pi process.
#[derive(Debug, Default)]
pub struct PiDecoder {
    prices: Arc<Prices>,
    /// The agent may not shorten its conversation, so the start of a summary means nothing (HANK-49).
    keeps_conversation: bool,
    session: Option<SessionId>,
    /// Model of the message that started last.
    model: Option<String>,
    provider: Option<String>,
    /// Usage of all messages.
    usage: UsageTotals,
    /// Ids of the messages that have ended. A message that is reported twice counts once (AGENT-31).
    ended_messages: MessageIds,
    /// A turn or a summary has begun, and the model's answer has not.
    awaits_answer: bool,
    /// Usage that was reported of the message in progress.
    reported: ModelUsage,
    /// A message has begun and not ended.
    in_message: bool,
    /// Usage of a model was paid for and not reported: an answer was cut off, or a conversation summed up.
    misses_cost: bool,
    /// Number of ended messages; names the usage of a message that has no id, or none yet.
    message_count: u64,
    /// How the last message ended.
    last_result: Option<AgentResult>,
    /// The last message asked for no tool, and no turn has started since. This does not depend on the line that ends the work, which repeats the whole
    /// conversation and may be too long to be read.
    turn_ended: bool,
}

impl PiDecoder {
    /// Returns the decoder for a launch.
    #[must_use]
    pub fn of(launch: &Launch) -> Self {
        Self {
            keeps_conversation: !launch.auto_compact,
            ..Self::default().priced_by(launch.prices.clone())
        }
    }

    /// Uses `prices` instead of the list prices.
    #[must_use]
    pub fn priced_by(self, prices: Arc<Prices>) -> Self {
        Self { prices, ..self }
    }

    fn handle_line(&mut self, line: StreamLine<'_>, events: &mut Vec<AgentEvent>) {
        match line.kind.as_deref() {
            Some("session") => events.extend(session_started(&mut self.session, line.id.into_owned(), None)),
            Some("agent_start" | "turn_start") => {
                self.turn_ended = false;
                self.awaits_answer = true;
            }
            Some("message_start") => {
                if let Some(message) = of_model(line.message) {
                    self.drop_open_message();
                    self.awaits_answer = false;
                    self.in_message = true;
                    events.extend(self.count_message(&message, None));
                }
            }
            Some("message_update") => {
                let growing = Message {
                    usage: line.usage,
                    ..Message::default()
                };
                events.extend(self.count_message(&growing, None));
            }
            Some("message_end") => {
                if let Some(message) = of_model(line.message) {
                    self.handle_message_end(message, events);
                }
            }
            Some("tool_execution_end") => {
                let id = line.tool_call_id.into_owned();
                let answer = line
                    .result
                    .0
                    .map_or_else(String::new, |answer| texts(answer.content));
                let name = line.tool_name.into_owned();
                events.extend(
                    id.map(|id| AgentEvent::ToolResult(ToolResult::new(id, name, answer, line.is_error.0))),
                );
            }
            Some("auto_retry_start") => events.push(AgentEvent::Retrying {
                attempt: line.attempt.or_zero(),
                max_retries: line.max_attempts.0,
                delay_ms: line.delay_ms.0,
                status: line.error_message.as_deref().and_then(status),
                error: line.error_message.into_owned(),
            }),
            // If pi may shorten its conversation, this line means that its context is full, even if the summary then fails. An older pi that has
            // done its work ends without waiting for the summary; then the cost of the summary is unknown.
            Some("compaction_start" | "auto_compaction_start") => {
                self.awaits_answer = true;
                events.extend((!self.keeps_conversation).then_some(AgentEvent::Compacted));
            }
            // The cost of a summary is not reported; a summary that fails, or is not attempted, costs nothing.
            Some("compaction_end" | "auto_compaction_end") => {
                self.awaits_answer = false;
                self.misses_cost |= line.error_message.as_deref().is_none() && !line.aborted.0;
            }
            Some("agent_end") => {
                let usage = self.totals();
                let result = self.last_result.clone();
                events.extend(result.map(|last| AgentEvent::Result(AgentResult { usage, ..last })));
            }
            _ => {}
        }
    }

    /// Closes a message that has begun and not ended: it was cut off.
    fn drop_open_message(&mut self) {
        self.misses_cost |= self.in_message;
        self.in_message = false;
        self.reported = ModelUsage::default();
    }

    /// Handles a complete message of the model.
    fn handle_message_end(&mut self, message: Message<'_>, events: &mut Vec<AgentEvent>) {
        (self.awaits_answer, self.in_message) = (false, false);
        let id = message.response_id.as_deref().map(str::to_owned);
        if id.as_deref().is_none_or(|id| self.ended_messages.insert(id)) {
            events.extend(self.count_message(&message, id));
        }
        let counted = std::mem::take(&mut self.reported);
        self.message_count += 1;
        let (stop, error) = (
            message.stop_reason.into_owned(),
            message.error_message.into_owned(),
        );
        self.turn_ended = stop.as_deref() != Some("toolUse");
        let mut said = String::new();
        for block in message.content.objects() {
            events.extend(block_event(block, &mut said));
        }
        let success = matches!(stop.as_deref(), Some("stop" | "length"));
        // An answer that was cut off may have been longer; a request that was refused costs nothing.
        let was_cut_off = stop.as_deref() == Some("error") && counted != ModelUsage::default();
        self.misses_cost |= was_cut_off || stop.as_deref() == Some("aborted");
        let text = if success { said } else { error.unwrap_or_default() };
        self.last_result = Some(AgentResult {
            success,
            context_exceeded: !success && is_context_exceeded(&text),
            error_status: if success { None } else { status(&text) },
            text,
            terminal_reason: stop,
            ..AgentResult::default()
        });
    }

    /// Counts the usage of a message beyond the part that was reported before (AGENT-21). `id` is given only when the message has ended.
    fn count_message(&mut self, message: &Message<'_>, id: Option<String>) -> Option<AgentEvent> {
        let usage = message.usage.0.as_ref()?;
        if let Some(model) = message.model.as_deref() {
            self.model = Some(model.to_owned());
            self.provider = message.provider.as_deref().map(str::to_owned);
        }
        let model = self.model.clone().unwrap_or_else(|| OWN_MODEL.to_owned());
        let (tokens, cost) = (usage.billed().tokens, self.cost(usage, &model));
        let is_unpriced = cost.is_none() && tokens != TokenUsage::ZERO;
        self.misses_cost |= is_unpriced;
        let cost = cost.unwrap_or(Usd::ZERO);
        let whole = ModelUsage {
            tokens: tokens.at_least(self.reported.tokens),
            cost: cost.max(self.reported.cost),
        };
        let added = ModelUsage {
            tokens: whole.tokens - self.reported.tokens,
            cost: whole.cost.saturating_sub(self.reported.cost),
        };
        if added == ModelUsage::default() {
            return None;
        }
        let is_new = self.reported == ModelUsage::default();
        self.reported = whole;
        self.usage.add(&model, added);
        Some(AgentEvent::Usage(MessageUsage {
            message_id: id.unwrap_or_else(|| format!("message-{}", self.message_count)),
            model,
            usage: whole,
            added,
            is_new,
            is_lower_bound: self.is_lower_bound(),
            is_unpriced,
            is_sum: false,
            parent_tool_use_id: None,
        }))
    }

    /// Returns the cost: by the user's price, else as pi itself computes it, else by our price list. Pi computes nothing for a model that its own list
    /// lacks.
    fn cost(&self, usage: &Usage, model: &str) -> Option<Usd> {
        let of_provider = self
            .provider
            .as_deref()
            .map(|provider| format!("{provider}/{model}"));
        let names = [of_provider.as_deref(), Some(model)];
        let given = names
            .into_iter()
            .flatten()
            .find_map(|name| self.prices.given_for(name));
        if let Some(rate) = given {
            return Some(rate.price(&usage.billed()));
        }
        let stated = usage.cost().filter(|cost| *cost > Usd::ZERO);
        stated.or_else(|| usage.billed().price(model, &self.prices))
    }

    fn is_lower_bound(&self) -> bool {
        self.awaits_answer || self.in_message || self.misses_cost
    }

    fn totals(&self) -> UsageTotals {
        UsageTotals {
            lower_bound: self.is_lower_bound(),
            ..self.usage.clone()
        }
    }
}

impl AgentDecoder for PiDecoder {
    fn decode(&mut self, line: AgentLine<'_>, events: &mut Vec<AgentEvent>) {
        if let Some(line) = line.read(events) {
            self.handle_line(line, events);
        }
    }

    fn finish(&mut self, end: ProcessEnd) -> ExitOutcome {
        self.drop_open_message();
        let last = self.last_result.as_ref().filter(|_| self.turn_ended);
        let verdict = end.verdict(last, "message", self.session.is_some());
        end.outcome(verdict, self.totals(), self.turn_ended)
    }

    fn usage(&self) -> UsageTotals {
        self.totals()
    }

    /// Pi reports everything on its output. Records are needed only if the process ended without a result that was read.
    fn records_needed(&self, records: RecordsScope) -> Option<&SessionId> {
        let wanted = records == RecordsScope::Whole && !self.turn_ended;
        self.session.as_ref().filter(|_| wanted)
    }
}

/// Returns the message if a model wrote it.
fn of_model(message: Object<Message<'_>>) -> Option<Message<'_>> {
    message
        .0
        .filter(|message| message.role.as_deref() == Some("assistant"))
}

/// Returns the event of a message block, and stores its text in `said`. The last text of a message is its answer.
fn block_event(block: Block<'_>, said: &mut String) -> Option<AgentEvent> {
    match block.kind.as_deref()? {
        "text" => {
            let text = block.text.into_owned()?;
            said.clone_from(&text);
            Some(AgentEvent::message(text))
        }
        "thinking" => Some(AgentEvent::thinking(block.thinking.into_owned()?)),
        "toolCall" => Some(AgentEvent::tool_use(
            block.id.into_owned()?,
            block.name.into_owned()?,
            block.arguments,
        )),
        _ => None,
    }
}

fn texts(content: List<Object<Block<'_>>>) -> String {
    let texts: Vec<String> = content
        .objects()
        .filter_map(|block| block.text.into_owned())
        .collect();
    texts.join("\n")
}

/// Parses the HTTP status out of `401 {"type":"error",…`.
fn status(words: &str) -> Option<u16> {
    let (number, _) = words.split_once(' ')?;
    number.parse().ok().filter(|status| (100..600).contains(status))
}
