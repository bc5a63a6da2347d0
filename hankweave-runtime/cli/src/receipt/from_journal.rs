//! Facts of a report that only the journal has, not the state document: words of agents, checks, questions, waits and commands. [`JournalFacts::add`]
//! takes one event after the other, from a recorded journal or from a live run.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use hankweave_core::agent::{AskedResult, InterruptedBy};
use hankweave_core::codon::{CodonExecution, CodonStatus};
use hankweave_core::cost::Usd;
use hankweave_core::document::{Operation, PendingRollback, StartingConditions};
use hankweave_core::event::{LastCodonStatus, StateEvent};
use hankweave_core::hank::{CodonConfig, Requires};
use hankweave_core::id::CodonId;
use hankweave_core::time::{Timestamp, short_duration};
use hankweave_core::view::{AttemptView, RunView, WaitView, excerpt};
use hankweave_core::wire::{AgentAction, Event, JournalEntry};
use hankweave_runtime::inspect::{COPIED, LEFT_BEHIND};
use hankweave_runtime::journal::TailLine;
use serde::Serialize;

use super::checks::{CheckReport, Checks};
use crate::recorded::{self, Follow, JournalRange, LineSink};
use crate::signals::TERMINAL_CLOSED;
use crate::status::{UnseenCrash, crash_words};
use crate::terminal::approval_prompt::{because, client_name, whole_answer};
use crate::terminal::exit::CliError;

/// Largest length of an agent's last message in a report, in bytes.
const MESSAGE: usize = 240;

/// Largest number of occasions that a report lists; older ones are left out.
const OCCASIONS: usize = 200;

/// Contents of a journal that a report needs.
#[derive(Debug, Default, Clone)]
pub(crate) struct JournalFacts {
    /// View after its last event.
    pub(super) view: RunView,
    /// Waits before the newest run that started at the first codon, where the view drops them.
    earlier_waits: Vec<WaitView>,
    /// Beginning of the agent's last message in each attempt, by codon and start of the attempt.
    messages: BTreeMap<(CodonId, Timestamp), String>,
    pub(super) checks: Checks,
    /// Answer about each codon that asked, in words.
    pub(super) answers: BTreeMap<CodonId, String>,
    /// Sentence about the newest agent that has replaced a codon's own, so that the same sentence is not noted again.
    replaced_agents: BTreeMap<CodonId, String>,
    /// Entries of the report's history, in the order of the journal; `occasions` adds the waits.
    pub(super) occasions: Vec<Occasion>,
    /// Crash of the newest run.
    pub(super) crash: Option<ReportedCrash>,
    /// Number of prompts in each codon's newest attempt after which its work did not pass: a check failed, or something required was missing.
    missed: BTreeMap<CodonId, u32>,
    /// Value of `missed` at the newest reminder of missing work, in each codon's newest attempt. The work was there after the next prompt, which the report
    /// numbers by it; checks that fail later count in `missed` alone.
    pub(super) missed_at_reminder: BTreeMap<CodonId, u32>,
    /// Number of reminders of each codon in all its attempts.
    pub(super) reminders: BTreeMap<CodonId, u32>,
    /// A run has started.
    has_run: bool,
    /// A codon has started.
    has_codon: bool,
    /// A run was described.
    is_described: bool,
    /// The newest run continued, and the occasion of its start does not name its first codon yet.
    names_next_codon: bool,
    /// The newest run continued and has started no codon.
    is_idle: bool,
    /// Time of the newest event that a run has written itself: a crash of the run came later. Events of a recovery do not count.
    last_sign_of_life: Option<Timestamp>,
    /// Time of the question that waits for an answer.
    asked: Option<Timestamp>,
}

/// Crash of a run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ReportedCrash {
    /// Description, with the time in UTC.
    pub(super) words: String,
    /// Last sign of life of the run.
    pub(super) life: Timestamp,
}

/// An entry of the report's history: a start, an end, a question, an answer, a command, a wait or a notice.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Occasion {
    pub(super) at: Timestamp,
    /// One sentence.
    pub(super) what: String,
    /// Name of the command that a client sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) command: Option<String>,
    /// It is the answer to a question.
    #[serde(skip)]
    pub(super) is_answer: bool,
    /// Length of the wait that it was, or that it ended, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) waited_ms: Option<u64>,
}

impl JournalFacts {
    /// Reads the journal of an execution directory; without a journal there are no facts.
    pub(super) fn of(execution: &Path) -> Result<Self, CliError> {
        let mut facts = Self::default();
        let all = JournalRange {
            after: 0,
            follow: Follow::No,
            quiet: true,
        };
        recorded::read(execution, all, &mut facts)?;
        Ok(facts)
    }

    /// Adds an entry; an entry that was added before changes nothing.
    pub(super) fn add(&mut self, entry: &JournalEntry) {
        if entry.seq <= self.view.seq {
            return;
        }
        // In a journal of an older version an answer does not name the client; the accepted command that follows does.
        let answered = self.view.answered.as_ref();
        let is_attributed = answered.is_some_and(|answer| answer.client.is_some());
        let (limit, approved) = (self.view.money.limit, self.view.approved);
        if starts_over(&entry.event) {
            let ended = std::mem::take(&mut self.view.waits);
            self.earlier_waits.extend(ended.into_values());
            let more = self.earlier_waits.len().saturating_sub(OCCASIONS);
            self.earlier_waits.drain(..more);
        }
        self.view.take(entry);
        match &entry.event {
            Event::RunDescribed { .. } => self.compare_limit(limit, entry.timestamp),
            Event::AssistantAction {
                codon_id,
                action: AgentAction::Message,
                content,
                parent_tool_use_id: None,
                ..
            } if !content.trim().is_empty() => {
                let attempt = self.view.newest_attempt(codon_id);
                if let Some(began) = attempt.and_then(|(_, attempt)| attempt.began) {
                    let key = (codon_id.clone(), began);
                    self.messages.insert(key, excerpt(content, MESSAGE));
                }
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
                let missed = self.missed.get(codon_id).copied().unwrap_or_default();
                let check = CheckReport {
                    run: run.clone(),
                    passed: *passed,
                    why: why.clone(),
                    says: says.clone(),
                    ends_loop: loop_id.is_some(),
                    number: missed.saturating_add(1),
                    ..CheckReport::default()
                };
                self.checks.add(codon_id, check);
                if !passed && loop_id.is_none() {
                    self.miss(codon_id);
                }
            }
            Event::Info { message } => self.inform(message, entry.timestamp),
            Event::RigSetupFailed {
                codon_id,
                command_index,
                ignored: true,
                ..
            } => {
                let step = command_index.map_or_else(String::new, |index| format!(" {}", index + 1));
                let what = format!("{codon_id}: step{step} of its set-up failed, which was ignored");
                self.note(entry.timestamp, what);
            }
            Event::StateTransition { transition, .. } => {
                if let StateEvent::ApprovalSet { approval: None } = **transition
                    && approved.is_some()
                {
                    self.note(
                        entry.timestamp,
                        "the answer to the approval counts no longer".to_owned(),
                    );
                }
                self.transition(transition, entry.timestamp);
            }
            Event::ApprovalRequested { codon_id, question } => {
                self.asked = Some(entry.timestamp);
                self.note(entry.timestamp, format!("{codon_id} asked: {question}"));
            }
            Event::CommandAccepted {
                command,
                client_id,
                codon_id,
                reason,
                by,
            } => {
                let client = client_name(by.as_ref().unwrap_or(client_id));
                // An answer is an occasion already, which names its author, except in the journal of an older version.
                let is_answer = matches!(command.as_str(), "codon.approve" | "codon.deny");
                if !is_answer {
                    let words = command_words(command, codon_id.as_ref());
                    let what = format!("{words} by {client}{}", because(reason.as_deref()));
                    self.note(entry.timestamp, what);
                    if let Some(newest) = self.occasions.last_mut() {
                        newest.command = Some(command.clone());
                    }
                } else if let Some(newest) = self.occasions.last_mut().filter(|_| !is_attributed) {
                    newest.what.push_str(&format!(" (by {client})"));
                }
            }
            _ => {}
        }
        if !may_be_recovery(&entry.event) {
            self.last_sign_of_life = Some(entry.timestamp);
        }
    }

    /// Notes that a run has another total budget than the one before it, `earlier`.
    fn compare_limit(&mut self, earlier: Option<Usd>, at: Timestamp) {
        let limit = self.view.money.limit;
        let is_first = !std::mem::replace(&mut self.is_described, true);
        if is_first || limit == earlier {
            return;
        }
        let words = |limit: Option<Usd>| limit.map_or_else(|| "none".to_owned(), |limit| limit.to_string());
        let (limit, earlier) = (words(limit), words(earlier));
        self.note(
            at,
            format!("the total budget is {limit}, and was {earlier} before"),
        );
    }

    /// Adds what only a message of the runtime says.
    fn inform(&mut self, message: &str, at: Timestamp) {
        let is_copied = message.contains(COPIED) && codon_of(message).is_some();
        if is_copied
            || message.contains(LEFT_BEHIND)
            || message.contains(SO_KEPT)
            || message == TERMINAL_CLOSED
        {
            self.note(at, message.to_owned());
        } else if message.contains(AskedResult::UNMET)
            && let Some(codon) = codon_of(message)
        {
            self.note(at, message.to_owned());
            self.miss(&codon);
        } else if message.contains(Requires::UNMET)
            && let Some(codon) = codon_of(message)
        {
            let times = self.reminders.entry(codon.clone()).or_default();
            *times = times.saturating_add(1);
            let missed = self.miss(&codon);
            self.missed_at_reminder.insert(codon, missed);
        }
    }

    /// Counts a prompt after which the work of a codon did not pass; returns the count in its newest attempt.
    fn miss(&mut self, codon: &CodonId) -> u32 {
        let missed = self.missed.entry(codon.clone()).or_default();
        *missed = missed.saturating_add(1);
        *missed
    }

    /// Adds a change of the state document.
    fn transition(&mut self, event: &StateEvent, at: Timestamp) {
        match event {
            StateEvent::RunStarted {
                starting_conditions, ..
            } => {
                self.crash = None;
                // An open question is asked again.
                self.asked = None;
                let resumes = starting_conditions.resumed_session().is_some();
                self.names_next_codon = starting_conditions.source().is_some() && !resumes;
                let is_first = !std::mem::replace(&mut self.has_run, true);
                self.is_idle = starting_conditions.source().is_some();
                // A run starts over only if a codon had started before.
                self.note(at, start_words(starting_conditions, is_first || !self.has_codon));
            }
            StateEvent::CodonStarted {
                codon_id,
                chosen_agent,
                ..
            } => {
                self.start_with(codon_id);
                self.has_codon = true;
                self.is_idle = false;
                let attempt = self.view.newest_attempt(codon_id).map(|(key, _)| key.attempt);
                self.checks.start(codon_id, attempt == Some(1));
                if attempt == Some(1) {
                    self.reminders.remove(codon_id);
                }
                self.missed_at_reminder.remove(codon_id);
                self.missed.remove(codon_id);
                if let Some(chosen) = chosen_agent
                    && let Some(instead) = &chosen.instead
                {
                    let what = format!("{codon_id} ran on {}, {}", chosen.words(), instead.words());
                    // Another run with that agent is not noted again.
                    let known = self.replaced_agents.insert(codon_id.clone(), what.clone());
                    if known.as_ref() != Some(&what) {
                        self.note(at, what);
                    }
                }
            }
            StateEvent::RunCompleted { cause: None, .. } => self.note(at, "the run completed".to_owned()),
            StateEvent::RunCompleted {
                cause: Some(cause), ..
            } => self.note(at, format!("the run ended: {cause}")),
            StateEvent::RunCrashed {
                run_id,
                last_codon_status,
                last_heartbeat,
                ..
            } => {
                let cut_off = self.view.crashed_attempt(run_id);
                let open = cut_off.and_then(|attempt| attempt.id.clone());
                let asked = self.view.ask.as_ref().and_then(|ask| ask.codon.as_ref());
                let status = match last_codon_status {
                    LastCodonStatus::Known(status) => *status,
                    LastCodonStatus::Unknown(_) => CodonStatus::Running,
                };
                // A heartbeat may have been newer than all events.
                let worked = cut_off.and_then(AttemptView::last_at_work);
                let life = self.last_sign_of_life.max(worked).max(*last_heartbeat);
                let words = crash_words(open.as_ref().map(|open| (open, status)), asked, life);
                let found = format!("; that was found at {at}");
                self.crash(words, &found, life.unwrap_or(at));
            }
            StateEvent::RunFailed {
                cause,
                interrupted_by,
                ..
            } => {
                self.name_idle_run();
                // A run that could not ask the user ends with its question open, so the wait for the answer begins now. A denial has answered it.
                let is_denied = self.view.approved == Some(false);
                if *interrupted_by == Some(InterruptedBy::Approval) && !is_denied {
                    self.asked.get_or_insert(at);
                }
                self.note(at, format!("the run ended{}", because(cause.as_deref())));
            }
            StateEvent::RollbackPending {
                rollback: Some(back), ..
            } if !back.restored => {
                self.note(at, rollback_words(back));
            }
            StateEvent::ApprovalSet {
                approval: Some(answer),
            } => {
                let (words, at) = (whole_answer(answer), answer.given_at(at));
                let waited = self.asked.take().map(|asked| at.since(asked));
                self.answers.insert(answer.codon_id.clone(), words.clone());
                self.note(at, format!("{}: {words}{}", answer.codon_id, after_words(waited)));
                if let Some(newest) = self.occasions.last_mut() {
                    newest.is_answer = true;
                    newest.waited_ms = waited.map(millis);
                }
            }
            _ => {}
        }
    }

    /// Names the first codon of a run that continued, in place of the codon after which the run continued.
    fn start_with(&mut self, codon: &CodonId) {
        if std::mem::take(&mut self.names_next_codon) {
            self.rename_continuation(format!("{CONTINUED} with {codon}"));
        }
    }

    /// Replaces the words about the start of a run that has ended without starting a codon: the run did nothing.
    fn name_idle_run(&mut self) {
        if std::mem::take(&mut self.is_idle) {
            self.rename_continuation("a run started, and ran nothing".to_owned());
        }
    }

    /// Replaces the words of the newest occasion on which a run continued.
    fn rename_continuation(&mut self, what: String) {
        let mut newest = self.occasions.iter_mut().rev();
        if let Some(started) = newest.find(|occasion| occasion.what.starts_with(CONTINUED)) {
            started.what = what;
        }
    }

    /// Adds the crash of the newest run, which no event has reported yet.
    pub(super) fn add_unseen_crash(&mut self, crash: &UnseenCrash, now: Timestamp) {
        self.view.note_alive(crash.after);
        self.view.mark_crashed(None);
        self.crash(crash.words(), "", crash.after.unwrap_or(now));
    }

    /// Notes the crash of a run, at its last sign of `life`; `found` ends the sentence and says when the crash was noticed.
    fn crash(&mut self, words: String, found: &str, life: Timestamp) {
        self.note(life, format!("the run crashed: {words}{found}"));
        self.crash = Some(ReportedCrash { words, life });
    }

    /// Returns the waits in their order.
    pub(super) fn waits(&self) -> impl Iterator<Item = &WaitView> {
        self.earlier_waits.iter().chain(self.view.waits.values())
    }

    /// Returns the command of a codon's check if the newest attempt has ended without running the check.
    pub(super) fn check_not_run(&self, config: &CodonConfig, record: &CodonExecution) -> Option<String> {
        let has_run = self
            .checks
            .of(record.codon_id())
            .iter()
            .any(|check| !check.ends_loop);
        let is_over = record.is_terminal() && self.has_run && !has_run;
        let check = config.check.as_ref().filter(|_| is_over)?;
        Some(check.run.clone())
    }

    /// Returns the last message of the agent in an attempt.
    pub(super) fn message(&self, attempt: &CodonExecution) -> Option<&str> {
        let key = (attempt.codon_id().clone(), *attempt.start_time());
        self.messages.get(&key).map(String::as_str)
    }

    /// Adds an occasion; the oldest one goes if there are too many.
    fn note(&mut self, at: Timestamp, what: String) {
        self.occasions.push(Occasion {
            at,
            what,
            command: None,
            is_answer: false,
            waited_ms: None,
        });
        if self.occasions.len() > OCCASIONS {
            self.occasions.remove(0);
        }
    }
}

/// Returns the effect of a command, such as `next codon build started`; the caller adds the client that sent it.
fn command_words(command: &str, codon: Option<&CodonId>) -> String {
    let named = codon.map(|id| format!(" {id}")).unwrap_or_default();
    match command {
        "codon.start" => format!("codon{named} started"),
        "codon.next" => format!("next codon{named} started"),
        "codon.skip" => format!("codon{named} skipped"),
        "codon.redo" => format!("codon{named} started again"),
        "codon.forceStop" => format!("codon{named} stopped at once"),
        "server.shutdown" => "stopped".to_owned(),
        "server.force_shutdown" => "stopped at once".to_owned(),
        "rollback.undo" => "last rollback undone".to_owned(),
        name if name.starts_with("rollback.") => "files rolled back".to_owned(),
        // A command of a newer version.
        name => format!("{name}{named} asked for"),
    }
}

/// Returns the milliseconds of a duration.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Whether an event may come from the start of a run, which closes what a crash left open. Such an event is no sign that the crashed run was alive.
fn may_be_recovery(event: &Event) -> bool {
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

/// Returns the codon that a message of the runtime names first.
fn codon_of(message: &str) -> Option<CodonId> {
    message.split_once(": ")?.0.parse().ok()
}

/// Whether an event is the start of a run that begins at the first codon.
fn starts_over(event: &Event) -> bool {
    let Event::StateTransition { transition, .. } = event else {
        return false;
    };
    matches!(&**transition, StateEvent::RunStarted { starting_conditions, .. } if starting_conditions.source().is_none())
}

/// Words by which a message about files that a rollback left unchanged is recognized.
const SO_KEPT: &str = ", so kept: ";

/// Start of the sentence about a run that continued.
const CONTINUED: &str = "a run continued";

/// Returns `a run continued after mend#1`.
fn start_words(conditions: &StartingConditions, is_first: bool) -> String {
    match (conditions, conditions.source()) {
        (StartingConditions::Fresh { rehearsal: true, .. }, _) => "a rehearsal started".to_owned(),
        (_, None) if is_first => "a run started at the first codon".to_owned(),
        (_, None) => "a run started over at the first codon, with the files as they were".to_owned(),
        (_, Some(source)) => match &source.after_codon {
            Some(codon) if conditions.resumed_session().is_some() => {
                format!("{CONTINUED} with {codon}, in its session")
            }
            Some(codon) => format!("{CONTINUED} after {codon}"),
            None => format!("{CONTINUED} at the beginning"),
        },
    }
}

/// Returns `undo: the files went back to checkpoint 77b0e2c1d4 of mend#1`.
fn rollback_words(back: &PendingRollback) -> String {
    let typed = back
        .operation
        .as_ref()
        .map(|operation| operation.command.as_str());
    let who = typed.filter(|command| *command != Operation::BY_A_RUN);
    let who = who.map_or_else(
        || "before the next run".to_owned(),
        |command| format!("{command}:"),
    );
    let sha = back.source.checkpoint_sha.short();
    let codon = back.source.after_codon.as_ref();
    let codon = codon.map_or("the beginning", CodonId::as_str);
    format!("{who} the files went back to checkpoint {sha} of {codon}")
}

impl LineSink for JournalFacts {
    fn line(&mut self, line: TailLine<'_>) -> io::Result<()> {
        // A line that only a newer version understands is left out.
        if let Ok(entry) = JournalEntry::from_json(line.bytes) {
            self.add(&entry);
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns how long a question waited for its answer, such as `, after 18s`; empty below a second.
pub(super) fn after_words(waited: Option<Duration>) -> String {
    let waited = waited.filter(|waited| *waited >= Duration::from_secs(1));
    waited.map_or_else(String::new, |waited| {
        format!(", after {}", short_duration(waited))
    })
}
