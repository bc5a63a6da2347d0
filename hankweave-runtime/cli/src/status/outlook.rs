//! Outlook of an execution directory: its next codon, or what blocks it, in one sentence.

use std::fmt;

use hankweave_core::document::RunRecord;
use hankweave_core::id::CodonId;
use hankweave_core::plan::{BlockedBy, Decision, stuck_words};
use hankweave_task_model::task::TaskStatus;

use super::StatusView;
use super::commands::{SuggestedCommand, first_part};
use crate::owning_task::OwningTask;
use crate::terminal::approval_prompt::{answer_words, because};
use crate::terminal::report;
use crate::terminal::screen::one_line;

/// Next codon of an execution directory, or what blocks it, with the command that continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outlook {
    /// Next codon, or what blocks it.
    pub(crate) words: String,
    /// Command that continues, and its effect; `None` where nothing continues.
    pub(crate) onward: Option<SuggestedCommand>,
}

impl fmt::Display for Outlook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.words)?;
        let Some((command, effect)) = &self.onward else {
            return Ok(());
        };
        // The words in front name the codon already.
        match effect.strip_prefix("continues with ") {
            Some(codon) => {
                let rest = codon.find(", ").map_or("", |at| &codon[at..]);
                write!(f, " (`{command}` continues there{rest})")
            }
            None => write!(f, " (`{command}` {effect})"),
        }
    }
}

/// Returns `build crashed; the next run continues there`.
fn crashed(id: &CodonId) -> String {
    format!("{id} crashed; the next run continues there")
}

impl StatusView<'_> {
    /// Returns the outlook after the newest run, `run`.
    pub(super) fn outlook_after(&self, run: &RunRecord) -> Outlook {
        let commands = self.commands();
        // After a rollback the plain command continues from the target; otherwise the first command is the recommended one.
        let first = self.ways_on(run).into_iter().next();
        let first = first.filter(|_| self.state.pending_rollback.is_none());
        let onward = first.map_or_else(|| self.next_run_or_approval(), |(command, _)| command);
        let onward = commands.into_iter().find(|(command, _)| *command == onward);
        Outlook {
            words: self.outlook(run),
            onward: onward.map(|(command, purpose)| (command, first_part(&purpose))),
        }
    }

    /// Returns the plain command of the next run, or the one that approves its first codon and then continues.
    fn next_run_or_approval(&self) -> String {
        match self.asked() {
            Some((id, _)) => self.hints.approval(id, &self.next_run_command()),
            None => self.next_run_command(),
        }
    }

    /// Describes the next codon, or what blocks it.
    pub(crate) fn outlook(&self, run: &RunRecord) -> String {
        let thread = &self.thread;
        if run.is_rehearsal() && !self.live {
            return "it was a rehearsal: a run begins at the first codon".to_owned();
        }
        if let Some(went_on) = self.went_on() {
            return format!("the task is {went_on}");
        }
        if let Some(end) = self.end_of_task() {
            return match end.is_completed {
                true => self.after_completed_task(run, &end.words),
                false => format!("the task was {}", end.in_short()),
            };
        }
        let task = self.task_at_rest();
        if let Some(who) = task.and_then(|task| task.worked_on_by()) {
            return format!("{} works on the task by hand", one_line(who));
        }
        if self.live && task.is_some_and(OwningTask::is_pending) {
            return "the task is pending: a worker continues it, and the run that is suspended here stops when it is continued".to_owned();
        }
        if let Some(open) = run.open_codon() {
            return self.of_open_codon(open.codon_id());
        }
        if let Some(words) = self.between_codons(run) {
            return words;
        }
        if let (Some(id), Some(answer)) = (self.asked_codon(), self.answer()) {
            return match answer.approval.granted {
                true => format!("{id} was approved; a worker starts it"),
                false
                    if self
                        .task
                        .as_ref()
                        .is_some_and(|task| task.status() == TaskStatus::Failed) =>
                {
                    format!("{id} was denied, so the task failed; once it is resumed, {id} asks again")
                }
                false => format!("{id} was denied; once the task is resumed, it asks again"),
            };
        }
        match self.asked() {
            // The question can be answered only after the next worker has asked it.
            Some((id, false)) if task.is_some_and(OwningTask::is_pending) => {
                return format!("{id} needs an approval; the next worker asks for it");
            }
            Some((id, false)) => return format!("{id} waits for an approval"),
            Some((id, true)) => return self.denied(id),
            None => {}
        }
        if task.is_some_and(OwningTask::is_pending) {
            return "the task is pending: a worker continues it".to_owned();
        }
        if let Some(id) = self.stuck() {
            let why = stuck_words(self.state, id).unwrap_or_else(|| "a loop is stuck".to_owned());
            return format!("{why}; next: {id}");
        }
        if let Some(next) = self.next() {
            let asks = if self.asks_first(next) {
                " (asks first)"
            } else {
                ""
            };
            return format!("next: {next}{asks}");
        }
        let at_rest = || match thread.codons.first() {
            Some(_) if thread.failed => "the plan has ended",
            Some(_) | None => "nothing is left to do",
        };
        self.blocked_words().unwrap_or_else(|| at_rest().to_owned())
    }

    /// Describes what a run of a user would do in the workspace of a completed task. `end` says how the task completed.
    fn after_completed_task(&self, run: &RunRecord, end: &str) -> String {
        if let Some(next) = self.next() {
            let command = match &self.decision {
                Some(Decision::Ask(entry)) if self.is_after_end(run) => {
                    self.hints.approval(&entry.codon_id, &self.hints.run())
                }
                _ => self.hints.run(),
            };
            return format!(
                "the task was {end}; `{command}` would run {next}, in a run that is no part of it"
            );
        }
        match self.blocked_words() {
            Some(blocked) if self.is_newest_after_end() => {
                format!("the task was {end}; {blocked}, in a run that is no part of it")
            }
            Some(blocked) if self.state.pending_rollback.is_some() => {
                let again = match &self.decision {
                    Some(Decision::Blocked(BlockedBy::FailedCodon(_))) => format!(
                        "; `{}` would run it again, in a run that is no part of the task",
                        self.hints.run()
                    ),
                    _ => String::new(),
                };
                format!("the task was {end}, and its files were taken back since; {blocked}{again}")
            }
            Some(_) | None => format!("nothing is left to do: the task was {end}"),
        }
    }

    /// Describes the open codon: at work, suspended, being stopped or crashed.
    fn of_open_codon(&self, id: &CodonId) -> String {
        let task = self.task_at_rest();
        match self.live {
            true if self.suspended.is_some() && self.task.is_some() => {
                let is_lost = self.task.as_ref().is_some_and(OwningTask::is_free);
                let then = match is_lost {
                    true => "its lease has ended, so the worker stops the run when `fg` continues it",
                    false => "`fg` in the terminal of the worker continues both",
                };
                format!("{id} is suspended with its worker; {then}")
            }
            true if self.suspended.is_some() => format!("{id} is suspended with its run"),
            true if self.is_stopping() => format!("{id} is being stopped with its run"),
            true => match self.background() {
                Some(work) => format!("{id} {}", report::activity_words(work, self.now)),
                None => format!("{id} is running"),
            },
            false if task.is_some_and(|task| task.cancel_requested_at().is_some()) => {
                format!("{id} crashed; the task is cancelled once its lease has ended")
            }
            false if self.task.is_some() => {
                format!(
                    "{id} crashed; the run of the next worker {}",
                    self.default_recovery_words(id)
                )
            }
            false => crashed(id),
        }
    }

    /// Returns what blocks the plan: `blocked: draft failed`.
    fn blocked_words(&self) -> Option<String> {
        let newest = self.thread.codons.first().filter(|_| self.is_blocked())?;
        let id = newest.codon.codon_id();
        Some(match newest.was_cut_off() {
            true => crashed(id),
            false => format!("blocked: {id} failed"),
        })
    }

    /// Whether the newest codon ran after its task had completed.
    fn is_newest_after_end(&self) -> bool {
        let newest = self.thread.codons.first();
        let run = newest.and_then(|entry| self.state.run(&entry.run_id));
        run.is_some_and(|run| self.is_after_end(run))
    }

    /// Whether a user has started this run after the task had completed.
    pub(super) fn is_after_end(&self, run: &RunRecord) -> bool {
        let task = self.task.as_ref();
        task.is_some_and(|task| task.has_ended_before(run))
    }

    /// Returns the codons that have not started, without the one that the outlook names as the next.
    pub(crate) fn after_next(&self) -> Vec<&CodonId> {
        // The record here does not know which codons a later attempt elsewhere has run.
        if self.went_on().is_some() {
            return Vec::new();
        }
        let started = self.thread.newest_records();
        let is_open = self
            .state
            .runs
            .front()
            .is_some_and(|run| run.open_codon().is_some());
        let next = self.next().filter(|_| !is_open && !self.is_blocked());
        let next = self.asked_codon().map(CodonId::as_str).or(next);
        let planned = self.state.execution_plan.iter().map(|entry| &entry.codon_id);
        let others = planned.filter(|id| !started.contains_key(id) && Some(id.as_str()) != next);
        others.collect()
    }

    /// Returns the codon with which a stuck loop would continue.
    pub(super) fn stuck(&self) -> Option<&CodonId> {
        match self.decision.as_ref()? {
            Decision::Blocked(BlockedBy::Stuck(id)) => Some(id),
            _ => None,
        }
    }

    /// Returns the next codon where nothing blocks. If the next run starts over, that is the first codon of the hank.
    pub(super) fn next(&self) -> Option<&str> {
        let begins_anew = self.changes.is_fresh && !self.is_blocked();
        let first = self.changes.next.as_deref().filter(|_| begins_anew);
        let planned = self.thread.next_codon_id.as_ref();
        // A loop may continue beyond the end of the recorded plan.
        let further = match &self.decision {
            Some(Decision::Start(entry)) => Some(&entry.codon_id),
            _ => None,
        };
        first.or(planned.or(further).map(CodonId::as_str))
    }

    /// Describes what a live run does while no codon runs.
    fn between_codons(&self, run: &RunRecord) -> Option<String> {
        let decision = self.decision.as_ref().filter(|_| self.is_working(run))?;
        Some(match decision {
            Decision::Retry(retry) => {
                let id = &retry.entry.codon_id;
                if retry.falls_back {
                    return Some(format!("{id} falls back to another agent or model"));
                }
                let which = match retry.number {
                    _ if retry.limit.is_some() => {
                        "waits for the end of a usage limit, and is run again".to_owned()
                    }
                    0 => "is run again".to_owned(),
                    number => format!("failed and is tried again (retry {number} of {})", retry.most),
                };
                let left = report::duration(self.time_until(retry));
                format!("{id} {which} in {left}")
            }
            Decision::Ask(entry) => format!("{} waits for an approval", entry.codon_id),
            Decision::Start(entry) => {
                let stands = match self.is_idle() {
                    true => "the run waits for a command",
                    false => "no codon runs at the moment",
                };
                format!("{stands}; next: {}", entry.codon_id)
            }
            Decision::Blocked(BlockedBy::FailedCodon(id)) => {
                format!("{id} failed; the run waits for somebody to say what is to be done")
            }
            Decision::Done => "every codon of the plan has ended; the run waits for a command".to_owned(),
            Decision::Blocked(_) | Decision::Extend(_) | Decision::Wait => return None,
        })
    }

    /// Describes the denial and its reason.
    fn denied(&self, id: &CodonId) -> String {
        let answer = self.state.approval.as_ref();
        let by = answer.and_then(|answer| answer.by.as_deref());
        let because = because(answer.and_then(|answer| answer.reason.as_deref()));
        format!("{id} was {}{because}", answer_words(false, by, None))
    }
}
