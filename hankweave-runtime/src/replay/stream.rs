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

/// Recorded output of an agent.
#[derive(Debug)]
pub(super) struct ReplayStream {
    codon: CodonId,
    agent: String,
    recording: Recording,
    /// Cost of the record's single messages at the prices of their run: the logs of codex and gemini have tokens alone.
    messages: ProcessUsage,
    /// The sum that was recorded last.
    so_far: TokenUsage,
    /// The model of the last one.
    model: String,
    /// How many of them there were.
    counted: u64,
    /// Number of outputs that were returned.
    said: u64,
    /// Lines without a meaning that were not returned yet: those in front of a process's session are never returned.
    noise: VecDeque<Event>,
}

/// Comparison of the end of an attempt with its log.
pub(super) struct AttemptComparison {
    /// Whether the log shows what was used.
    pub(super) is_compared: bool,
    pub(super) difference: Option<Difference>,
}

/// Number of lines without a meaning that are skipped in search of the session after them.
const MOST_NOISE: usize = 1_000;

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

/// `1200 in, 37 out, 500 written, 3000 read`
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

/// Returns the agent of a log: `CODON-AGENT.log`, or `CODON-AGENT-2.log` for another attempt.
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
            so_far: TokenUsage::ZERO,
            model: past.model.unwrap_or(&agent).to_owned(),
            agent,
            counted: 0,
            said: 0,
            noise: VecDeque::new(),
        })
    }

    /// Plays up to the session, which must be the recorded one.
    pub(super) fn start(&mut self, session: &str) -> io::Result<Option<Difference>> {
        while let Some(event) = self.recording.next()? {
            if let AgentEvent::SessionStarted { session_id, .. } = event {
                let is_same = session_id.as_str() == session;
                return Ok((!is_same).then(|| self.differs("its session", session, session_id)));
            }
        }
        Ok(Some(self.differs("its session", session, "none")))
    }

    /// Says the next thing, which takes the place of what is recorded of it.
    pub(super) fn next_output(&mut self, recorded: &mut Event) -> io::Result<Option<Difference>> {
        self.said += 1;
        let place = format!("what it said {}.", self.said);
        let Some(mut said) = self.next()? else {
            return Ok(Some(self.differs(
                &place,
                json(recorded),
                "nothing: the log has ended",
            )));
        };
        // The duration of a tool is only known at the time of the run.
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
        ) = (&mut said, &*recorded)
        {
            *execution_time_ms = *took;
            tool_name.clone_from(name);
        }
        let difference = (said != *recorded).then(|| self.differs(&place, json(recorded), json(&said)));
        *recorded = said;
        Ok(difference)
    }

    /// Counts what is recorded of one message. What has no model is the sum at the end (WIRE-35).
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
        let before = std::mem::replace(&mut self.so_far, tokens);
        let Some(model) = model_id else { return };
        self.model.clone_from(model);
        // Journals of older versions have what is new in the message in the place of the sum so far.
        let is_sum = message.is_some();
        self.count(if is_sum {
            tokens.at_least(before) - before
        } else {
            tokens
        });
    }

    fn count(&mut self, tokens: TokenUsage) {
        self.counted += 1;
        let id = self.counted.to_string();
        // The cost of the message is in the totals.
        let _ = (self.messages).message(&id, &self.model, Billed::from(tokens), UsageConfidence::Final);
    }

    /// Returns the total of the log of codex or gemini: its tokens, at the prices of their messages.
    fn priced(&mut self, tokens: TokenUsage) -> UsageTotals {
        let told = self.messages.totals().tokens;
        self.count(tokens.at_least(told) - told);
        UsageTotals {
            tokens,
            ..self.messages.totals()
        }
    }

    fn next(&mut self) -> io::Result<Option<Event>> {
        while self.noise.back().is_none_or(is_noise) && self.noise.len() < MOST_NOISE {
            let Some(event) = self.recording.next()? else {
                break;
            };
            if matches!(event, AgentEvent::SessionStarted { .. }) {
                self.noise.clear();
            }
            let event = Event::of_agent(self.codon.clone(), event);
            self.noise.extend(event.filter(is_of_an_agent));
        }
        Ok(self.noise.pop_front())
    }

    /// Compares the end of the log with the record before its last step. `was_heard` says whether the run read the whole log.
    pub(super) fn end(mut self, record: &CodonExecution, was_heard: bool) -> io::Result<AttemptComparison> {
        let more = self.next()?;
        while self.next()?.is_some() {}
        let exit = ProcessExit::Exited(i32::from(!was_heard));
        let outcome = self.recording.finish(ProcessEnd::of(exit, EndedBy::Itself));
        let known = !record.agent_cost_is_lower_bound() && !outcome.usage.lower_bound;
        let (usage, tells_usage) = match self.agent.as_str() {
            // For these agents the log is the only source of usage, so even a lower bound must be equal.
            "acp" | "opencode" | "pi" => (outcome.usage, true),
            "codex" | "gemini" => (self.priced(outcome.usage.tokens), known),
            _ => (outcome.usage, known && !self.recording.is_incomplete()),
        };
        let is_compared = was_heard && tells_usage;
        let differs = (usage.cost, usage.tokens) != (record.agent_cost(), record.agent_tokens());
        let difference = match (more, &outcome.verdict) {
            (Some(more), _) if was_heard => Some(self.differs("its end", "nothing more", json(&more))),
            (
                _,
                Verdict::Failure {
                    reason,
                    context_exceeded: false,
                },
            ) if was_heard && reason.kind != FailureKind::Unknown => {
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
