//! What the journal adds to the state document: words of agents, checks, questions, waits and commands.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use hankweave_core::agent::InterruptedBy;
use hankweave_core::document::{PendingRollback, StartingConditions};
use hankweave_core::event::StateEvent;
use hankweave_core::id::CodonId;
use hankweave_core::time::{Timestamp, short_duration};
use hankweave_core::view::{AttemptState, RunView, excerpt};
use hankweave_core::wire::{AgentAction, Event, JournalEntry};
use hankweave_runtime::journal::TailLine;
use serde::Serialize;

use crate::approval_prompt::{answer_words, because, client_name};
use crate::exit::CliError;
use crate::recorded::{self, Follow, JournalRange, LineSink};
use crate::status::{UnseenCrash, crash_words};

/// Bytes of a codon's last message in a report.
const MESSAGE: usize = 240;

/// Occasions that a report lists, the newest ones.
const OCCASIONS: usize = 200;

/// Contents of a journal that a report needs.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// View after its last event.
    pub(super) view: RunView,
    /// Last message of each codon's agent, cut.
    pub(super) messages: BTreeMap<CodonId, String>,
    /// Newest check of each codon, and of the loop that it ends.
    pub(super) checks: BTreeMap<CodonId, Vec<CheckReport>>,
    /// Questions, answers, waits and commands in their order.
    pub(super) occasions: Vec<Occasion>,
    /// A run that continued has started no codon yet.
    starting: bool,
    /// Time of the newest event that a live run has caused: a crash was then at the earliest.
    alive: Option<Timestamp>,
    /// When the question was put that waits for an answer.
    asked: Option<Timestamp>,
}

/// Result of a check.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CheckReport {
    /// Command.
    pub(super) run: String,
    pub(super) passed: bool,
    /// How it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) why: Option<String>,
    /// Last line of its output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) says: Option<String>,
    /// Whether it decides over a loop.
    pub(super) ends_loop: bool,
}

/// Something that a person asked, answered or waited for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Occasion {
    pub(super) at: Timestamp,
    /// One sentence.
    pub(super) what: String,
}

impl Heard {
    /// Reads the journal of an execution directory; one that is not there says nothing.
    pub(super) fn of(execution: &Path) -> Result<Self, CliError> {
        let mut heard = Self::default();
        let all = JournalRange {
            after: 0,
            follow: Follow::No,
            quiet: true,
        };
        recorded::read(execution, all, &mut heard)?;
        Ok(heard)
    }

    /// Takes an entry in; one that was taken already changes nothing.
    pub(super) fn take(&mut self, entry: &JournalEntry) {
        if entry.seq <= self.view.seq {
            return;
        }
        // Journals of older versions name the client only after the answer.
        let answered = self.view.answered.as_ref();
        let is_attributed = answered.is_some_and(|answer| answer.client.is_some());
        self.view.take(entry);
        match &entry.event {
            Event::AssistantAction {
                codon_id,
                action: AgentAction::Message,
                content,
                parent_tool_use_id: None,
                ..
            } if !content.trim().is_empty() => {
                self.messages.insert(codon_id.clone(), excerpt(content, MESSAGE));
            }
            Event::CheckCompleted {
                codon_id,
                loop_id,
                run,
                passed,
                why,
                says,
                ..
            } => {
                let check = CheckReport {
                    run: run.clone(),
                    passed: *passed,
                    why: why.clone(),
                    says: says.clone(),
                    ends_loop: loop_id.is_some(),
                };
                let checks = self.checks.entry(codon_id.clone()).or_default();
                checks.retain(|known| known.ends_loop != check.ends_loop);
                checks.push(check);
            }
            Event::StateTransition { transition, .. } => self.transition(transition, entry.timestamp),
            Event::ApprovalRequested { codon_id, question } => {
                self.asked = Some(entry.timestamp);
                self.note(entry.timestamp, format!("{codon_id} asked: {question}"));
            }
            Event::CommandAccepted {
                command,
                client_id,
                codon_id,
                reason,
            } => {
                // An answer is an occasion already, which says who gave it, but in a journal of an older version.
                let is_answer = matches!(command.as_str(), "codon.approve" | "codon.deny");
                if !is_answer {
                    let codon = codon_id
                        .as_ref()
                        .map(|id| format!(" of {id}"))
                        .unwrap_or_default();
                    let client = client_name(client_id);
                    let what = format!("{command}{codon} by {client}{}", because(reason.as_deref()));
                    self.note(entry.timestamp, what);
                } else if let Some(newest) = self.occasions.last_mut().filter(|_| !is_attributed) {
                    newest.what.push_str(&format!(" (by {})", client_name(client_id)));
                }
            }
            _ => {}
        }
        if !is_of_recovery(&entry.event) {
            self.alive = Some(entry.timestamp);
        }
    }

    fn transition(&mut self, event: &StateEvent, at: Timestamp) {
        match event {
            StateEvent::RunStarted {
                starting_conditions, ..
            } => {
                let resumes = starting_conditions.resumed_session().is_some();
                self.starting = starting_conditions.source().is_some() && !resumes;
                self.note(at, started(starting_conditions));
            }
            StateEvent::CodonStarted {
                codon_id,
                chosen_agent,
                ..
            } => {
                self.start_with(codon_id);
                if let Some(chosen) = chosen_agent
                    && let Some(instead) = &chosen.instead
                {
                    let what = format!("{codon_id} ran on {}, {}", chosen.words(), instead.words());
                    self.note(at, what);
                }
            }
            StateEvent::RunCompleted { .. } => self.note(at, "the run completed".to_owned()),
            StateEvent::RunCrashed { run_id, .. } => {
                let attempts = self.view.items.values().flat_map(|item| item.attempts.values());
                let mut crashed = attempts.filter(|attempt| {
                    attempt.state == AttemptState::Crashed && attempt.run.as_ref() == Some(run_id)
                });
                let codon = crashed.next().and_then(|attempt| attempt.id.clone());
                let words = crash_words(codon.as_ref(), self.alive);
                let what = format!("the run crashed: {words}; the next start found that at {at}");
                self.note(self.alive.unwrap_or(at), what);
            }
            StateEvent::RunFailed {
                cause,
                interrupted_by,
                ..
            } => {
                if *interrupted_by == Some(InterruptedBy::Approval) {
                    self.asked.get_or_insert(at);
                }
                self.note(at, format!("the run ended{}", because(cause.as_deref())));
            }
            StateEvent::RollbackPending { rollback: Some(back) } if !back.restored => {
                self.note(at, went_back(back));
            }
            StateEvent::ApprovalSet {
                approval: Some(answer),
            } => {
                let words = answer_words(answer.granted, answer.by.as_deref(), None);
                let because = because(answer.reason.as_deref());
                let after = self.asked.take().map(|asked| at.since(asked));
                let after = after.filter(|after| *after >= Duration::from_secs(1));
                let after = after.map(|after| format!(" after {}", short_duration(after)));
                let after = after.unwrap_or_default();
                self.note(at, format!("{}: {words}{after}{because}", answer.codon_id));
            }
            _ => {}
        }
    }

    /// Names the first codon of a run that continued, in the place of the one after which it did.
    fn start_with(&mut self, codon: &CodonId) {
        let newest = self.occasions.iter_mut().rev();
        let mut started = newest.filter(|occasion| occasion.what.starts_with(CONTINUED));
        if std::mem::take(&mut self.starting)
            && let Some(started) = started.next()
        {
            started.what = format!("{CONTINUED} with {codon}");
        }
    }

    /// Takes in the crash of the newest run, which no event has reported yet.
    pub(super) fn take_crash(&mut self, crash: &UnseenCrash, now: Timestamp) {
        self.view.mark_crashed();
        let at = crash.after.unwrap_or(now);
        self.note(at, format!("the run crashed: {}", crash.words()));
    }

    fn note(&mut self, at: Timestamp, what: String) {
        self.occasions.push(Occasion { at, what });
        if self.occasions.len() > OCCASIONS {
            self.occasions.remove(0);
        }
    }
}

/// Whether an event is one of a start that closes what a crash left open.
fn is_of_recovery(event: &Event) -> bool {
    let Event::StateTransition { transition, .. } = event else {
        return false;
    };
    matches!(
        **transition,
        StateEvent::RunCrashed { .. }
            | StateEvent::CostsUpdated { .. }
            | StateEvent::CostsIncremented { .. }
            | StateEvent::CodonFinalCostSet { .. }
            | StateEvent::CodonTransitioned { .. }
    )
}

/// Start of the sentence about a run that continued.
const CONTINUED: &str = "a run continued";

/// `a run continued after mend#1`
fn started(conditions: &StartingConditions) -> String {
    match (conditions, conditions.source()) {
        (StartingConditions::Fresh { rehearsal: true, .. }, _) => "a rehearsal started".to_owned(),
        (_, None) => "a run started at the first codon".to_owned(),
        (_, Some(source)) => match &source.after_codon {
            Some(codon) if conditions.resumed_session().is_some() => {
                format!("{CONTINUED} with {codon}, in its session")
            }
            Some(codon) => format!("{CONTINUED} after {codon}"),
            None => format!("{CONTINUED} at the beginning"),
        },
    }
}

/// `undo: the files went back to checkpoint 77b0e2c1d4 of mend#1`
fn went_back(back: &PendingRollback) -> String {
    let who = match &back.operation {
        Some(operation) => operation.command.as_str(),
        None => "the run that starts next",
    };
    let sha = back.source.checkpoint_sha.short();
    let codon = back.source.after_codon.as_ref();
    let codon = codon.map_or("the beginning", CodonId::as_str);
    format!("{who}: the files went back to checkpoint {sha} of {codon}")
}

impl LineSink for Heard {
    fn line(&mut self, line: TailLine<'_>) -> io::Result<()> {
        // A line of a newer version is no part of this report.
        if let Ok(entry) = JournalEntry::from_json(line.bytes) {
            self.take(&entry);
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
