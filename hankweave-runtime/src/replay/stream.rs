//! The log of one attempt of a codon, compared with its record.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hankweave_agents::ProcessEnd;
use hankweave_core::agent::{AgentEvent, EndedBy, FailureKind, ProcessExit, Verdict};
use hankweave_core::codon::CodonExecution;
use hankweave_core::cost::{Billed, ProcessUsage, TokenUsage, UsageConfidence, UsageTotals};
use hankweave_core::id::CodonId;
use hankweave_core::wire::Event;

use super::difference::Difference;
use super::used;
use crate::driver::{LogContext, Recording, decoder};
use crate::world::disk::Disk;

/// Output of an agent, read from the log of one attempt.
#[derive(Debug)]
pub(super) struct ReplayStream {
    codon: CodonId,
    agent: String,
    recording: Recording,
    /// Cost of the recorded messages at the prices of their run. The logs of codex and gemini have tokens without costs.
    messages: ProcessUsage,
    /// The sum of tokens in the message recorded last.
    recorded_sum: TokenUsage,
    /// The model of the message recorded last.
    model: String,
    /// Number of recorded messages.
    message_count: u64,
    /// Number of outputs that were returned.
    output_count: u64,
    /// Outputs that were decoded and not returned yet: lines without a meaning, and the first other output after them. The
    /// lines before a session are never returned.
    waiting: VecDeque<Event>,
}

/// Comparison of the end of an attempt with its log.
pub(super) struct AttemptComparison {
    /// Whether the usage in the log could be compared with the record.
    pub(super) is_compared: bool,
    pub(super) difference: Option<Difference>,
}

/// Maximum number of lines without a meaning that wait in search of a session after them.
const MOST_NOISE: usize = 1_000;

/// Whether the event is a line without a meaning.
fn is_noise(event: &Event) -> bool {
    matches!(
        event,
        Event::OutputTruncated { .. } | Event::OutputUnparsed { .. }
    )
}

/// Whether the event comes from the output of an agent.
pub(super) fn is_of_an_agent(event: &Event) -> bool {
    matches!(
        event,
        Event::AssistantAction { .. }
            | Event::ToolResult { .. }
            | Event::OutputTruncated { .. }
            | Event::OutputUnparsed { .. }
    )
}

/// Describes tokens: `1200 in, 37 out, 500 written, 3000 read`.
pub(super) fn in_words(tokens: TokenUsage) -> String {
    let TokenUsage {
        input_tokens,
        output_tokens,
        cache_creation_tokens,
        cache_read_tokens,
    } = tokens;
    format!(
        "{input_tokens} in, {output_tokens} out, {cache_creation_tokens} written, {cache_read_tokens} read"
    )
}

/// Returns the name of the agent in the name of a log: `CODON-AGENT.log`, or `CODON-AGENT-2.log` for another attempt.
fn agent_of(codon: &CodonId, log: &Path) -> Option<String> {
    let stem = log.file_stem()?.to_str()?;
    let rest = stem.strip_prefix(&codon.file_stem())?.strip_prefix('-')?;
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let agent = rest.rsplit_once('-').filter(|(_, number)| is_number(number));
    Some(agent.map_or(rest, |(agent, _)| agent).to_owned())
}

impl ReplayStream {
    /// Opens the log of a codon; `None` if its name is not one of ours.
    pub(super) fn open(
        disk: &Arc<dyn Disk>,
        codon: &CodonId,
        log: PathBuf,
        past: &LogContext<'_>,
    ) -> Option<Self> {
        let agent = agent_of(codon, &log)?;
        let decoder = decoder(&agent, past);
        Some(Self {
            codon: codon.clone(),
            recording: Recording::new(Arc::clone(disk), log, decoder),
            messages: ProcessUsage::priced_by(Arc::clone(past.prices)),
            recorded_sum: TokenUsage::ZERO,
            model: past.model.unwrap_or(&agent).to_owned(),
            agent,
            message_count: 0,
            output_count: 0,
            waiting: VecDeque::new(),
        })
    }

    /// Reads the log up to the start of the session, which must be the recorded one.
    pub(super) fn start(&mut self, session: &str) -> io::Result<Option<Difference>> {
        while let Some(event) = self.recording.next()? {
            if let AgentEvent::SessionStarted { session_id, .. } = event {
                let is_same = session_id.as_str() == session;
                return Ok((!is_same).then(|| self.differs("its session", session, session_id)));
            }
        }
        Ok(Some(self.differs("its session", session, "none")))
    }

    /// Replaces a recorded output by the next one of the log; returns their difference.
    pub(super) fn next_output(&mut self, recorded: &mut Event) -> io::Result<Option<Difference>> {
        self.output_count += 1;
        let place = format!("what it said {}.", self.output_count);
        let Some(mut replayed) = self.next()? else {
            return Ok(Some(self.differs(
                &place,
                json(recorded),
                "nothing: the log has ended",
            )));
        };
        // Only the run knew the duration of a tool: it is taken from the record, and so is the tool's name.
        if let (
            Event::ToolResult {
                execution_time_ms,
                tool_name,
                ..
            },
            Event::ToolResult {
                execution_time_ms: took,
                tool_name: name,
                ..
            },
        ) = (&mut replayed, &*recorded)
        {
            *execution_time_ms = *took;
            tool_name.clone_from(name);
        }
        let difference =
            (replayed != *recorded).then(|| self.differs(&place, json(recorded), json(&replayed)));
        *recorded = replayed;
        Ok(difference)
    }

    /// Counts the recorded usage of one message. An event without a model is not a message, but the sum at the end (WIRE-35).
    pub(super) fn count_message(&mut self, event: &Event) {
        let Event::TokenUsage {
            input_tokens,
            output_tokens,
            cache_creation_tokens,
            cache_read_tokens,
            model_id,
            message,
            ..
        } = event
        else {
            return;
        };
        let tokens = TokenUsage {
            input_tokens: *input_tokens,
            output_tokens: *output_tokens,
            cache_creation_tokens: *cache_creation_tokens,
            cache_read_tokens: *cache_read_tokens,
        };
        let before = std::mem::replace(&mut self.recorded_sum, tokens);
        let Some(model) = model_id else { return };
        self.model.clone_from(model);
        // The event has the sum of all messages so far. In journals of older versions, which have no `message`, it has the
        // tokens of this message alone.
        let is_sum = message.is_some();
        self.count(if is_sum {
            tokens.at_least(before) - before
        } else {
            tokens
        });
    }

    fn count(&mut self, tokens: TokenUsage) {
        self.message_count += 1;
        let id = self.message_count.to_string();
        // The returned cost of this message is not needed: the totals of `messages` contain it.
        let _ = (self.messages).message(&id, &self.model, Billed::from(tokens), UsageConfidence::Final);
    }

    /// Returns the total of a log of codex or gemini: its `tokens`, with the cost of the recorded messages. Tokens that no
    /// message has are priced like the last message.
    fn priced(&mut self, tokens: TokenUsage) -> UsageTotals {
        let counted = self.messages.totals().tokens;
        self.count(tokens.at_least(counted) - counted);
        UsageTotals {
            tokens,
            ..self.messages.totals()
        }
    }

    /// Returns the next output of the log. Reads on while the last output is a line without a meaning, because a session may
    /// follow that drops the line.
    fn next(&mut self) -> io::Result<Option<Event>> {
        while self.waiting.back().is_none_or(is_noise) && self.waiting.len() < MOST_NOISE {
            let Some(event) = self.recording.next()? else {
                break;
            };
            if matches!(event, AgentEvent::SessionStarted { .. }) {
                self.waiting.clear();
            }
            let event = Event::of_agent(self.codon.clone(), event);
            self.waiting.extend(event.filter(is_of_an_agent));
        }
        Ok(self.waiting.pop_front())
    }

    /// Compares the rest of the log with `record`, the codon just before its last transition. `was_read_to_end` says whether
    /// the run read the whole log.
    pub(super) fn end(
        mut self,
        record: &CodonExecution,
        was_read_to_end: bool,
    ) -> io::Result<AttemptComparison> {
        let unrecorded = self.next()?;
        // The totals are known only after the whole log.
        while self.next()?.is_some() {}
        // The log has no exit code. The agent of a completed codon, whose log was read to its end, counts as ended with success.
        let exit = ProcessExit::Exited(i32::from(!was_read_to_end));
        let outcome = self.recording.finish(ProcessEnd::of(exit, EndedBy::Itself));
        let is_exact = !record.agent_cost_is_lower_bound() && !outcome.usage.lower_bound;
        let (usage, has_usage) = match self.agent.as_str() {
            // For these agents the log is the only source of usage, so even a lower bound must be equal.
            "acp" | "opencode" | "pi" => (outcome.usage, true),
            "codex" | "gemini" => (self.priced(outcome.usage.tokens), is_exact),
            _ => (outcome.usage, is_exact && !self.recording.is_incomplete()),
        };
        let is_compared = was_read_to_end && has_usage;
        let differs = (usage.cost, usage.tokens) != (record.agent_cost(), record.agent_tokens());
        let difference = match (unrecorded, &outcome.verdict) {
            (Some(unrecorded), _) if was_read_to_end => {
                Some(self.differs("its end", "nothing more", json(&unrecorded)))
            }
            (
                _,
                Verdict::Failure {
                    reason,
                    context_exceeded: false,
                },
            ) if was_read_to_end && reason.kind != FailureKind::Unknown => {
                let why = reason.message.clone().unwrap_or_default();
                Some(self.differs("its end", "a success", why))
            }
            _ if is_compared && differs => {
                let replayed = format!("{}, {}", usage.cost, in_words(usage.tokens));
                Some(self.differs("what it used", used(record), replayed))
            }
            _ => None,
        };
        Ok(AttemptComparison {
            is_compared,
            difference,
        })
    }

    fn differs(
        &self,
        place: &str,
        recorded: impl std::fmt::Display,
        replayed: impl std::fmt::Display,
    ) -> Difference {
        Difference::new(
            format!("{} ({}), {place}", self.codon, self.agent),
            recorded,
            replayed,
        )
    }
}

fn json(event: &Event) -> String {
    serde_json::to_string(event).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_tells_its_agent() {
        let of = |codon: &str, log: &str| agent_of(&codon.parse().unwrap(), Path::new(log));
        assert_eq!(of("a-b#2", "runs/r/a-b-2-claude.log").as_deref(), Some("claude"));
        assert_eq!(of("a", "a-pi-3.log").as_deref(), Some("pi"));
        assert_eq!(of("a", "a-my-agent.log").as_deref(), Some("my-agent"));
        assert_eq!(of("a", "b-pi.log"), None);
    }
}
