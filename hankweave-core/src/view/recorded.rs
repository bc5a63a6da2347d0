//! View of a state document, for directories whose journal is not read (WIRE-36). [`RunView::of_state`] makes it; of a live run, the reader adds the question,
//! the activity and the description, which the document does not have.

use std::sync::Arc;
use std::time::Duration;

use super::attempt::{AttemptState, AttemptView, AttemptWhy, EarlierAttempts};
use super::history::HistoryStart;
use super::item::CheckView;
use super::now::{CurrentActivity, CurrentAttempt, phase};
use super::run_view::{AskedApproval, ProblemView, RunState, RunView, ViewedRun};
use super::text::{NAME, TITLE, excerpt};
use super::undone::{RolledBack, UndoView};
use crate::budget::{Ceiling, CeilingUse, time_at_work};
use crate::codon::{CodonExecution, SentinelState};
use crate::document::{HankweaveState, RunRecord, RunStatus};
use crate::thread::{self, ExecutionThread, ThreadCodon};
use crate::time::Timestamp;
use crate::wire::Event;

impl RunView {
    /// Returns the view of a document after the event `seq`; 0 where the number is not known. `thread` is the execution thread that ends in its newest run.
    ///
    /// Money counts all attempts, but only the newest attempts are listed. Lines, files and waits come only from events that are applied later.
    #[must_use]
    pub fn of_state(state: &HankweaveState, thread: &ExecutionThread, seq: u64) -> Self {
        let mut view = Self {
            seq,
            ..Self::default()
        };
        view.files.base = thread::files_of_start(state).cloned();
        view.money.spent = state.total_spend();
        let counted = CeilingUse::of(Ceiling::default(), state).spent();
        view.money.before = view.money.spent.saturating_sub(counted);
        // The newest run is the first of `runs`.
        let in_history = thread::runs_of_history(state);
        let is_lower_bound = |run: &Arc<RunRecord>| run.cost_is_lower_bound();
        view.money.at_least = state.runs.iter().take(in_history).any(is_lower_bound);
        view.money.before_at_least = state.runs.iter().skip(in_history).any(is_lower_bound);
        let newest = state.runs.front().map(|run| run.spend());
        view.money.before_run = view.money.spent.saturating_sub(newest.unwrap_or_default());
        view.history.starts.insert(
            0,
            HistoryStart {
                seq: 0,
                before: view.money.before,
                before_at_least: view.money.before_at_least,
                forgotten: sum_undone(state, thread),
            },
        );
        view.sum_forgotten();
        let pending = state.pending_rollback.as_ref();
        view.rollback = pending
            .filter(|pending| pending.restored)
            .map(|pending| RolledBack::of(pending, None));
        view.undo = thread::undoable(state).map(UndoView::of);
        view.replace_plan(&state.execution_plan);
        // A view lists 200 attempts. In the thread the newest codon is the first.
        for record in thread.codons.iter().take(200).rev() {
            let older = thread.codons.len() - 1 - record.global_index;
            view.add_record(record, u64::try_from(older).unwrap_or(u64::MAX));
        }
        if let Some(run) = state.runs.front() {
            view.run = Some(ViewedRun {
                id: run.run_id.clone(),
                number: state.runs.len(),
                began: run.start_time,
            });
            view.rehearsal = run.is_rehearsal();
            view.interrupted_by = run.interrupted_by;
            view.cause = run.cause.as_deref().map(|cause| excerpt(cause, TITLE));
            view.state = RunState::of_record(run);
            view.since = run.end_time.or(Some(run.start_time));
            view.at = view.since;
        }
        let has_started = |id| thread.codons.iter().any(|known| known.codon.codon_id() == id);
        let answer = state.approval.as_ref();
        let answer = answer.filter(|answer| !has_started(&answer.codon_id));
        view.approved = answer.map(|answer| answer.granted);
        view.reword();
        view
    }

    /// Adds the question whose answer a live run awaits, from [`Event::ApprovalRequested`].
    #[must_use]
    pub fn with_question(mut self, asked: AskedApproval) -> Self {
        if !self.state.has_ended() {
            (self.state, self.since) = (RunState::Asking, Some(asked.since));
        }
        self.show_question(asked.codon.as_ref(), &asked.question);
        self.ask = Some(asked);
        self.reword();
        self
    }

    /// Adds what a live run does at the moment, from its newest [`Event::Progress`].
    #[must_use]
    pub fn with_activity(mut self, activity: CurrentActivity) -> Self {
        self.activity = Some(activity);
        self.reword();
        self
    }

    /// Adds the names, limits and loops of a run, from [`Event::run_described`].
    #[must_use]
    pub fn with_description(mut self, description: &Event) -> Self {
        self.describe(description);
        self.reword();
        self
    }

    /// Sets the time at work of the open attempt until `now` to `worked`, as its run measures it, without suspensions (S12).
    #[must_use]
    pub fn with_time_at_work(mut self, worked: Duration, now: Timestamp) -> Self {
        let item = self.now.as_ref().map(|open| (open.item.clone(), open.key()));
        let attempt = item.and_then(|(item, key)| self.items.get_mut(&item)?.attempts.get_mut(&key));
        if let Some((attempt, began)) =
            attempt.and_then(|attempt| attempt.began.map(|began| (attempt, began)))
        {
            let suspended = now.since(began).saturating_sub(worked);
            attempt.suspended_ms = u64::try_from(suspended.as_millis()).unwrap_or(u64::MAX);
        }
        self
    }

    /// Notes that the run still worked at `at`, which no event reports, before [`mark_crashed`](Self::mark_crashed).
    pub fn note_alive(&mut self, at: Option<Timestamp>) {
        self.at = self.at.max(at);
    }

    /// Turns a run that is recorded as running, and whose process no longer exists, into a crashed one. `worked` is the least time at work of its open attempt;
    /// `None` where only the last sign of life is known: the last event, or a later time from [`note_alive`](Self::note_alive).
    pub fn mark_crashed(&mut self, worked: Option<Duration>) {
        if self.state.has_ended() || self.state == RunState::Planned {
            return;
        }
        self.state = RunState::Crashed;
        if let Some(at) = self.at {
            self.end_waits(at);
        }
        if let Some(now) = self.now.take()
            && let Some(item) = self.items.get_mut(&now.item)
            && let Some(attempt) = item.attempts.get_mut(&now.key())
        {
            let until_last_sign = || attempt.worked(self.at.unwrap_or(Timestamp::UNIX_EPOCH));
            let worked = worked.unwrap_or_else(until_last_sign);
            attempt.duration_ms = u64::try_from(worked.as_millis()).ok();
            attempt.state = AttemptState::Crashed;
        }
        self.reword();
    }

    /// Adds the attempt that a codon of the thread records, after `older` other ones.
    fn add_record(&mut self, record: &ThreadCodon, older: u64) {
        let codon = &*record.codon;
        let (id, place) = (codon.codon_id(), codon.loop_context());
        self.find_or_lay_out(id, place.as_ref().map(|place| &place.loop_id));
        if let Some(of) = self.loop_of(id.configured()) {
            of.iteration = Some(id.iteration());
            if let Some(check) = codon.loop_check() {
                of.keep_check(id.iteration(), CheckView::from(&check));
            }
        }
        let item = id.configured();
        let Some(found) = self.items.get(item) else { return };
        let key = found.next_attempt(id.iteration());
        let mut attempt = AttemptView::of_record(codon);
        attempt.run = Some(record.run_id.clone());
        attempt.record = Some(older.saturating_add(1));
        attempt.after = Some(older).filter(|older| *older > 0);
        self.history.tip = attempt.record;
        if record.run_status == RunStatus::Crashed && codon.crashed() {
            attempt.state = AttemptState::Crashed;
        }
        self.problem = (attempt.state == AttemptState::Failed).then(|| ProblemView {
            item: item.to_owned(),
            attempt: key,
            tail: std::collections::BTreeMap::new(),
        });
        self.add_attempt(item, key, attempt);
        self.now = (!codon.is_terminal()).then(|| CurrentAttempt {
            phase: phase(codon.status()).to_owned(),
            ..CurrentAttempt::new(item, key)
        });
    }
}

/// Sums the attempts of the history that are not in the thread: they were undone.
fn sum_undone(state: &HankweaveState, thread: &ExecutionThread) -> Option<EarlierAttempts> {
    let mut sum: Option<EarlierAttempts> = None;
    for (run, at) in thread.undone_codons(state) {
        let codon = &run.codons[at];
        let worked = u64::try_from(time_at_work(codon).as_millis()).unwrap_or(u64::MAX);
        let sum = sum.get_or_insert_default();
        sum.count = sum.count.saturating_add(1);
        sum.cost += codon.spend();
        sum.at_least |= codon.cost_is_lower_bound();
        sum.tokens += codon.agent_tokens();
        sum.duration_ms = sum.duration_ms.saturating_add(worked);
        sum.lost_time |= run.status == RunStatus::Crashed && codon.crashed();
    }
    sum
}

impl RunState {
    /// Returns the state of a recorded run. A run that crashed stays recorded as running until the next start.
    #[must_use]
    pub fn of_record(run: &RunRecord) -> Self {
        match run.status {
            RunStatus::Running => Self::Running,
            RunStatus::Completed => Self::Completed,
            RunStatus::Failed => Self::of_failure(run.interrupted_by),
            RunStatus::Crashed => Self::Crashed,
        }
    }
}

impl AttemptView {
    /// Returns the attempt that a codon's record describes.
    #[must_use]
    pub fn of_record(codon: &CodonExecution) -> Self {
        let reason = codon.failure_reason();
        let duration = codon.duration();
        let chosen = codon.chosen_agent();
        Self {
            id: Some(codon.codon_id().clone()),
            seq: None,
            record: None,
            after: None,
            history: 0,
            state: AttemptState::of_record(codon).unwrap_or_default(),
            began: Some(*codon.start_time()),
            ended: codon.end_time().copied(),
            duration_ms: duration.and_then(|time| u64::try_from(time.as_millis()).ok()),
            suspended_ms: 0,
            rig_ms: None,
            why: reason.map(AttemptWhy::from),
            budget: codon
                .budget_exceeded()
                .map(|exceeded| exceeded.words(codon.cost_is_lower_bound())),
            cost: codon.agent_cost(),
            sentinels: codon.sentinel_cost(),
            sentinels_at_least: codon.sentinels().iter().any(SentinelState::cost_is_lower_bound),
            at_least: codon.cost_is_lower_bound(),
            tokens: codon.agent_tokens(),
            agent: chosen.as_ref().map(|chosen| excerpt(&chosen.agent, NAME)),
            model: chosen
                .as_ref()
                .and_then(|chosen| Some(excerpt(chosen.model.as_deref()?, NAME))),
            entry: codon.entry_of_agent(),
            replaced_by: codon.replaced_by().map(|agent| excerpt(agent, TITLE)),
            instead: chosen.and_then(|chosen| chosen.instead),
            run: None,
            rig_checkpoint: codon.rig_setup_checkpoint().cloned(),
            checkpoint: codon.end_checkpoint().map(|(_, sha)| sha.clone()),
            files_changed: codon.files_changed(),
            result: codon.result().map(|result| excerpt(&result.to_string(), TITLE)),
            undone: false,
        }
    }
}
