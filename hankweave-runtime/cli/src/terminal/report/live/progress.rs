//! Progress of a run on a terminal: takes its events into a view for the footer, and returns the lines that stay on the terminal.

use std::collections::VecDeque;
use std::fmt::{self, Write};
use std::time::Duration;

use hankweave_core::document::HankweaveState;
use hankweave_core::event::StateEvent;
use hankweave_core::id::CodonId;
use hankweave_core::thread;
use hankweave_core::time::Timestamp;
use hankweave_core::view::{RunView, fallback_words, line_of};
use hankweave_core::wire::{Event, JournalEntry};

use super::{LiveContext, ended};
use crate::terminal::approval_prompt::answer_text;
use crate::terminal::report::event_text::suspension;
use crate::terminal::report::words::budget;
use crate::terminal::screen::{SafeText, columns, with_local_times};
use crate::terminal::suspended_run::SuspendedRun;
use crate::terminal::wrap::wrap;

/// Most lines about a codon that wait for its end.
const NOTES: usize = 20;

/// Lines about the open codon. They are printed when it ends, below its own line.
#[derive(Debug, Default)]
pub(super) struct CodonNotes {
    pub(super) lines: VecDeque<String>,
    /// The last check of the codon did not pass.
    pub(super) missed_check: bool,
}

impl CodonNotes {
    pub(super) fn push(&mut self, line: String) {
        self.lines.push_back(line);
        if self.lines.len() > NOTES {
            self.lines.pop_front();
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct LiveProgress {
    pub(super) view: RunView,
    /// Facts that the events may not report.
    pub(super) known: LiveContext,
    notes: CodonNotes,
    /// Time at which the newest event was received.
    received_at: Option<Timestamp>,
    /// The codons that a rollback is about to undo, newest first.
    codons_to_undo: Vec<CodonId>,
    /// End of the grace period after a stop was requested.
    pub(super) stops_at: Option<Timestamp>,
    /// Suspension of the run that a client follows.
    pub(super) suspended: Option<SuspendedRun>,
}

impl LiveProgress {
    pub(super) fn new(known: LiveContext) -> Self {
        Self {
            known,
            ..Self::default()
        }
    }

    /// Sets the start of the run, or its current state for a client that connects later.
    pub(super) fn start(&mut self, state: &HankweaveState) {
        let view = RunView::of_state(state, &thread::build(state, None, None), 0);
        self.view = match &self.known.description {
            Some(description) => view.with_description(description),
            None => view,
        };
    }

    /// Takes an event in; returns the lines that stay on the terminal.
    pub(super) fn event(&mut self, entry: &JournalEntry, now: Timestamp) -> SafeText {
        self.received_at = Some(now);
        let mut said = SafeText::default();
        // Writing to a text cannot fail.
        let _ = self.take(entry, &mut said);
        said
    }

    /// Returns the time up to which durations count. In a replay that is the recorded time, which passes at the speed of the replay.
    pub(super) fn time(&self, now: Timestamp) -> Timestamp {
        match (self.known.replayed, self.view.at, self.received_at) {
            (None, ..) => SuspendedRun::time(self.suspended, now),
            (Some(speed), Some(at), Some(received)) => {
                let passed = now.since(received).as_secs_f64() * speed;
                at.after(Duration::try_from_secs_f64(passed).unwrap_or(Duration::MAX))
            }
            (Some(_), at, _) => at.unwrap_or(now),
        }
    }

    fn take(&mut self, entry: &JournalEntry, said: &mut SafeText) -> fmt::Result {
        // A crash of the run closes its codon, so the codon is read before the view takes the event.
        let open = self.view.current().and_then(|(_, attempt)| attempt.id.clone());
        self.view.take(entry);
        match &entry.event {
            Event::StateTransition { transition, .. } => match &**transition {
                StateEvent::CodonStarted { .. } => {
                    self.notes = CodonNotes::default();
                    Ok(())
                }
                StateEvent::CodonTransitioned { codon_id, to, .. } if to.is_terminal() => {
                    ended::write(&self.view, codon_id, &std::mem::take(&mut self.notes), said)
                }
                StateEvent::RunCrashed { .. } => match open {
                    Some(codon) => ended::write(&self.view, &codon, &std::mem::take(&mut self.notes), said),
                    None => Ok(()),
                },
                StateEvent::ApprovalSet { approval: Some(_) } => {
                    write_answer(&self.view, self.known.client.as_deref(), said)
                }
                _ => Ok(()),
            },
            Event::CheckCompleted { passed, .. } => {
                self.notes.missed_check = !passed;
                if let Some(line) = line_of(&entry.event) {
                    self.notes.push(line);
                }
                Ok(())
            }
            Event::RehearsalStep { codon_id, .. } => {
                let line = line_of(&entry.event).unwrap_or_default();
                if self.view.current().is_some() {
                    self.notes.push(line);
                    return Ok(());
                }
                writeln!(said, "{}: {line}", self.view.name(codon_id.configured()))
            }
            Event::RollbackStarted {
                codons_to_process, ..
            } => {
                self.codons_to_undo.clone_from(codons_to_process);
                Ok(())
            }
            Event::RollbackCompleted { .. } => {
                let undone = std::mem::take(&mut self.codons_to_undo).into_iter().rev();
                let title = |codon: CodonId| self.view.title(codon.configured(), codon.iteration());
                let mut titles: Vec<String> = undone.map(title).collect();
                titles.dedup();
                let mut titles = titles.iter();
                titles.try_for_each(|title| writeln!(said, "↩ {title}: taken back"))
            }
            Event::CodonFallback {
                codon_id,
                chosen,
                same_session,
            } => {
                let title = self.view.title(codon_id.configured(), codon_id.iteration());
                let words = with_local_times(&fallback_words(chosen, *same_session));
                writeln!(said, "{}", wrapped(&format!("→ {title}: {words}")))
            }
            Event::BudgetSummary { ceiling, totals, .. } => {
                writeln!(said, "{}", budget(ceiling, totals))
            }
            Event::DiskUsage { .. } => {
                writeln!(said, "{}", wrapped(&line_of(&entry.event).unwrap_or_default()))
            }
            Event::RunContinued {
                suspended_at,
                suspended_ms,
                ..
            } => writeln!(said, "{}", suspension(*suspended_at, *suspended_ms)),
            Event::Info { message } => match self.of_open_codon(message) {
                Some(own) => {
                    self.notes.push(with_local_times(&own));
                    Ok(())
                }
                None => writeln!(said, "{}", wrapped(&with_local_times(message))),
            },
            Event::Error { message, .. } => writeln!(said, "{}", wrapped(&format!("error: {message}"))),
            _ => Ok(()),
        }
    }

    /// Returns a message about the open codon without the id of the codon; `None` for other messages.
    fn of_open_codon(&self, message: &str) -> Option<String> {
        let (_, attempt) = self.view.current()?;
        let own = message.strip_prefix(attempt.id.as_ref()?.as_str())?;
        Some(own.strip_prefix(": ")?.to_owned())
    }
}

/// Breaks a text between its words; the further lines are indented.
fn wrapped(text: &str) -> String {
    wrap(text, columns().saturating_sub(2).max(20)).join("\n  ")
}

/// Writes the answer to a question, which is no longer in the footer then. `own` is the name of this client.
fn write_answer(view: &RunView, own: Option<&str>, said: &mut SafeText) -> fmt::Result {
    let Some(answered) = &view.answered else {
        return Ok(());
    };
    let mark = if answered.granted { "✓" } else { "■" };
    writeln!(said, "{mark} {}", answer_text(view, answered, own))
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: CLI-33
    #[test]
    fn a_replay_at_any_speed_has_a_time() {
        let at = Timestamp::from_millis(1_736_000_000_000);
        let second = Duration::from_secs(1);
        let time = |speed: f64| {
            let mut progress = LiveProgress::new(LiveContext::of_replay(speed));
            (progress.view.at, progress.received_at) = (Some(at), Some(at));
            progress.time(at.after(second))
        };
        assert_eq!(time(0.0), at);
        assert_eq!(time(1e-20), at);
        assert_eq!(time(2.0), at.after(second * 2));
        assert_eq!(time(1e300), at.after(Duration::MAX));
    }
}
