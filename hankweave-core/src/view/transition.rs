//! State events in a view: [`RunView::take`] passes each to `transition`, which updates the run, the attempts and the plan.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::attempt::{AttemptKey, AttemptState, AttemptView, AttemptWhy};
use super::item::CheckView;
use super::now::{CurrentActivity, CurrentAttempt, phase};
use super::run_view::{ProblemView, RunState, RunView, ViewedRun};
use super::text::{NAME, TITLE, excerpt};
use super::wait::{AnsweredApproval, WaitKind, WaitView, add, end_for_start};
use crate::agent::{CRASHED_IN_WORDS, FailureReason};
use crate::codon::{
    BudgetExceeded, CheckpointType, ChosenAgent, CodonStatus, LoopCheck, LoopContext, SentinelState,
};
use crate::document::{Approval, StartingConditions};
use crate::event::StateEvent;
use crate::id::{CheckpointSha, CodonId, RunId};
use crate::time::Timestamp;

/// Metadata at the end of a codon, as far as a view shows it.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct EndedCodon {
    failure_reason: Option<FailureReason>,
    budget_exceeded: Option<BudgetExceeded>,
    loop_check: Option<LoopCheck>,
    cost_is_lower_bound: bool,
    duration_ms: Option<u64>,
    files_changed: Option<u64>,
    result: Option<Value>,
}

impl RunView {
    /// Applies a state event, after which `run_count` runs are recorded.
    pub(super) fn transition(&mut self, event: &StateEvent, run_count: usize, at: Timestamp, seq: u64) {
        match event {
            StateEvent::RunStarted {
                run_id,
                starting_conditions,
                ..
            } => self.start_run(run_id, starting_conditions, (run_count, at, seq)),
            StateEvent::RunCompleted { .. } => self.end_run(RunState::Completed, at),
            StateEvent::RunFailed {
                interrupted_by,
                cause,
                ..
            } => {
                self.interrupted_by = *interrupted_by;
                self.cause = cause.as_deref().map(|cause| excerpt(cause, TITLE));
                self.end_run(RunState::of_failure(*interrupted_by), at);
            }
            StateEvent::RunCrashed { run_id, .. } => {
                self.crash_attempt(run_id, at);
                // The crash was found at `at`, at the next start. The waits ended earlier, with the process of the crashed run.
                let last_at_work = self.crashed_attempt(run_id).and_then(AttemptView::last_at_work);
                self.end_waits(last_at_work.unwrap_or(at));
                self.end_run(RunState::Crashed, at);
            }
            StateEvent::CodonStarted {
                codon_id,
                loop_context,
                chosen_agent,
                ..
            } => {
                end_for_start(&mut self.waits, codon_id, at);
                self.undo = None;
                if let Some(chosen) = chosen_agent {
                    self.replace_agent(codon_id, chosen);
                }
                self.start_codon(codon_id, loop_context.as_ref(), at, seq);
                if let (Some(chosen), Some(attempt)) = (chosen_agent, self.attempt_of(codon_id)) {
                    attempt.entry = chosen.entry;
                    attempt.agent = Some(excerpt(&chosen.agent, NAME));
                    attempt.model = chosen.model.as_deref().map(|model| excerpt(model, NAME));
                    attempt.instead.clone_from(&chosen.instead);
                }
            }
            StateEvent::CodonTransitioned {
                codon_id,
                to,
                metadata,
                ..
            } => match to.is_terminal() {
                true => self.end_codon(codon_id, *to, metadata.as_ref(), at, seq),
                false => self.move_codon(codon_id, *to, metadata.as_ref()),
            },
            StateEvent::CostsUpdated {
                codon_id,
                cost,
                tokens,
                ..
            }
            | StateEvent::CodonFinalCostSet {
                codon_id,
                final_cost: cost,
                final_tokens: tokens,
                ..
            } => {
                if let Some(attempt) = self.attempt_of(codon_id) {
                    (attempt.cost, attempt.tokens) = (*cost, *tokens);
                }
            }
            StateEvent::CostsIncremented {
                codon_id,
                cost_delta,
                tokens_delta,
                ..
            } => {
                if let Some(attempt) = self.attempt_of(codon_id) {
                    attempt.cost += *cost_delta;
                    attempt.tokens += *tokens_delta;
                }
            }
            StateEvent::SentinelStatesUpdated {
                codon_id,
                sentinel_states,
                total_cost,
                ..
            } => {
                if let Some(attempt) = self.attempt_of(codon_id) {
                    attempt.sentinels = *total_cost;
                    let mut sentinels = sentinel_states.iter();
                    attempt.sentinels_at_least = sentinels.any(SentinelState::cost_is_lower_bound);
                    attempt.at_least |= attempt.sentinels_at_least;
                }
            }
            StateEvent::CheckpointCreated {
                codon_id,
                checkpoint_type,
                sha,
                ..
            } => {
                if let Some(attempt) = self.attempt_of(codon_id) {
                    match checkpoint_type {
                        CheckpointType::RigSetup => attempt.rig_checkpoint = Some(sha.clone()),
                        _ => attempt.checkpoint = Some(sha.clone()),
                    }
                }
            }
            StateEvent::RollbackPending {
                rollback: Some(pending),
                execution_plan,
            } if pending.restored => {
                self.roll_back(pending, at, seq);
                if let Some(plan) = execution_plan {
                    self.replace_plan(plan);
                }
            }
            StateEvent::InitialCheckpointSet { sha } => self.files.base = Some(sha.clone()),
            StateEvent::ApprovalSet {
                approval: Some(answer),
            } => self.answer(answer, at),
            StateEvent::PlanReplaced { execution_plan } => self.replace_plan(execution_plan),
            StateEvent::PlanExtended { extension } => self.extend_plan(extension),
            StateEvent::ApprovalSet { approval: None } => self.approved = None,
            StateEvent::AssistantMessageCountUpdated { .. }
            | StateEvent::ExtensionCountUpdated { .. }
            | StateEvent::RollbackPending { .. }
            | StateEvent::OperationRecorded { .. } => {}
        }
    }

    fn start_run(
        &mut self,
        id: &RunId,
        conditions: &StartingConditions,
        (number, began, seq): (usize, Timestamp, u64),
    ) {
        let id = id.clone();
        self.run = Some(ViewedRun { id, number, began });
        (self.now, self.activity, self.ask, self.problem) = (None, None, None, None);
        (self.interrupted_by, self.cause, self.rollback) = (None, None, None);
        self.money.before_run = self.money.spent;
        if let Some(source) = conditions.source() {
            self.continue_at(source, seq);
        }
        self.rehearsal = matches!(conditions, StartingConditions::Fresh { rehearsal: true, .. });
        if let StartingConditions::Fresh { .. } = conditions {
            if let Some(files) = conditions.checkpoint().filter(|sha| !sha.is_blank()) {
                self.files.base = Some(files.clone());
            }
            self.start_over(seq);
            self.waits.clear();
            self.files.newest.clear();
            self.files.more = 0;
        }
        (self.state, self.since) = (RunState::Running, Some(began));
    }

    fn end_run(&mut self, state: RunState, at: Timestamp) {
        // A question without an answer still waits for it after the end of the run.
        (self.now, self.activity) = (None, None);
        self.end_waits(at);
        self.enter(state, at);
    }

    /// Ends all waits, except those for an answer, with a run that ended at `at`, however long they were to last.
    pub(super) fn end_waits(&mut self, at: Timestamp) {
        let waits = self.waits.values_mut();
        for wait in waits.filter(|wait| wait.kind != WaitKind::Approval) {
            let to = wait.to.map_or(at, |to| to.min(at));
            wait.to = Some(to.max(wait.from));
        }
    }

    /// Returns the attempt that the crash of a run interrupted.
    #[must_use]
    pub fn crashed_attempt(&self, run: &RunId) -> Option<&AttemptView> {
        let mut attempts = self.items.values().flat_map(|item| item.attempts.values());
        attempts.find(|attempt| attempt.state == AttemptState::Crashed && attempt.run.as_ref() == Some(run))
    }

    /// Marks the attempt that the crash of a run interrupted. It is the open one, or one that an earlier event of the same recovery has closed as crashed: the
    /// crash event of a run cannot record the working time of its codon, nor that its cost is a lower bound. `at` is when the crash was noticed.
    fn crash_attempt(&mut self, run: &RunId, at: Timestamp) {
        let open = self.now.take().map(|now| (now.item.clone(), now.key()));
        let is_closed_as_crashed = |attempt: &AttemptView| {
            let message = attempt.why.as_ref().and_then(|why| why.message.as_deref());
            attempt.run.as_ref() == Some(run) && message == Some(CRASHED_IN_WORDS)
        };
        for (id, item) in &mut self.items {
            for (key, attempt) in &mut item.attempts {
                let is_open = open
                    .as_ref()
                    .is_some_and(|(item, attempt)| item == id && attempt == key);
                if is_open || is_closed_as_crashed(attempt) {
                    attempt.state = AttemptState::Crashed;
                    attempt.ended.get_or_insert(at);
                    self.problem
                        .take_if(|problem| problem.item == *id && problem.attempt == *key);
                }
            }
        }
    }

    /// Marks the newest attempt of a codon as replaced, if the agent that is chosen now is a fallback in the same run.
    fn replace_agent(&mut self, id: &CodonId, chosen: &ChosenAgent) {
        let run = self.run.as_ref().map(|run| run.id.clone());
        let Some(attempt) = self.attempt_of(id) else {
            return;
        };
        let is_replaced = attempt.run == run
            && matches!(attempt.state, AttemptState::Paused | AttemptState::Failed)
            && chosen.instead.is_some()
            && attempt.entry != chosen.entry;
        if is_replaced {
            attempt.replaced_by = Some(excerpt(&chosen.words(), TITLE));
            if attempt.state == AttemptState::Paused {
                attempt.state = AttemptState::Replaced;
            }
        }
    }

    fn start_codon(&mut self, id: &CodonId, place: Option<&LoopContext>, at: Timestamp, seq: u64) {
        self.find_or_lay_out(id, place.map(|place| &place.loop_id));
        let (item, iteration) = (id.configured(), id.iteration());
        if let Some(of) = self.loop_of(item) {
            of.iteration = Some(iteration);
        }
        let first = AttemptKey {
            iteration,
            attempt: 1,
        };
        let key = self
            .items
            .get(item)
            .map_or(first, |item| item.next_attempt(iteration));
        let attempt = AttemptView {
            id: Some(id.clone()),
            seq: Some(seq),
            after: self.history.tip,
            history: self.history.current,
            began: Some(at),
            run: self.run.as_ref().map(|run| run.id.clone()),
            ..AttemptView::default()
        };
        self.add_attempt(item, key, attempt);
        self.history.tip = Some(seq);
        self.now = Some(CurrentAttempt::new(item, key));
        (self.activity, self.ask, self.problem) = (None, None, None);
        self.approved = None;
        self.answered.take_if(|answered| answered.codon != *id);
        self.enter(RunState::Running, at);
    }

    fn move_codon(&mut self, id: &CodonId, to: CodonStatus, metadata: Option<&Map<String, Value>>) {
        // The only checkpoint of a step between open states is that of the rig.
        let rig = metadata.and_then(|metadata| metadata.get("checkpointSha")?.as_str());
        if let (Some(rig), Some(attempt)) = (rig, self.attempt_of(id)) {
            attempt.rig_checkpoint = Some(CheckpointSha::new(rig));
        }
        if let Some(now) = &mut self.now {
            phase(to).clone_into(&mut now.phase);
        }
    }

    fn end_codon(
        &mut self,
        id: &CodonId,
        to: CodonStatus,
        metadata: Option<&Map<String, Value>>,
        at: Timestamp,
        seq: u64,
    ) {
        let end = metadata.map(EndedCodon::deserialize);
        let end = end.and_then(Result::ok).unwrap_or_default();
        let now = self.now.take_if(|now| now.item == id.configured());
        let interruption = end.failure_reason.as_ref().and_then(FailureReason::interruption);
        let state = AttemptState::of(to, interruption).unwrap_or_default();
        let until = end.failure_reason.as_ref().and_then(|reason| reason.retry_at);
        if let Some(attempt) = self.attempt_of(id) {
            attempt.state = state;
            attempt.ended = Some(at);
            attempt.duration_ms = end.duration_ms;
            attempt.files_changed = end.files_changed;
            let result = end.result.filter(|_| state == AttemptState::Completed);
            attempt.result = result.map(|result| excerpt(&result.to_string(), TITLE));
            attempt.why = end.failure_reason.as_ref().map(AttemptWhy::from);
            attempt.at_least = end.cost_is_lower_bound || attempt.sentinels_at_least;
            let exceeded = end.budget_exceeded;
            attempt.budget = exceeded.map(|exceeded| exceeded.words(attempt.at_least));
        }
        if let Some(check) = &end.loop_check
            && let Some(of) = self.loop_of(id.configured())
        {
            // A result from `check.completed` stays: the last line of the output is more useful than the recorded words.
            of.checks
                .entry(id.iteration())
                .or_insert_with(|| CheckView::from(check));
        }
        if let (AttemptState::Failed, Some(now)) = (state, now) {
            let (item, attempt, tail) = (now.item.clone(), now.key(), now.lines);
            self.problem = Some(ProblemView { item, attempt, tail });
        }
        if let Some(until) = until {
            // A limit may be met again after its end has passed. The run then waits as well, and reports until when.
            let to = until.max(at);
            let wait = WaitView {
                item: Some(id.configured().to_owned()),
                codon: Some(id.clone()),
                kind: WaitKind::Limit,
                from: at,
                to: Some(to),
                why: None,
                answer: None,
                n: None,
                of: None,
            };
            add(&mut self.waits, seq, wait);
            if to > at {
                self.activity = Some(CurrentActivity::limit(at, to));
            }
        }
    }

    /// Applies the answer to an approval, and ends the wait for it.
    fn answer(&mut self, answer: &Approval, recorded: Timestamp) {
        let at = answer.given_at(recorded);
        self.approved = Some(answer.granted);
        let answered = AnsweredApproval {
            codon: answer.codon_id.clone(),
            granted: answer.granted,
            reason: answer.reason.as_deref().map(|reason| excerpt(reason, TITLE)),
            client: answer.by.as_deref().map(|by| excerpt(by, NAME)),
            at,
        };
        self.answered = Some(answered.clone());
        if self.ask.take().is_none() {
            return;
        }
        let newest = self.waits.values_mut().next_back();
        if let Some(wait) = newest.filter(|wait| wait.kind == WaitKind::Approval && wait.to.is_none()) {
            (wait.to, wait.answer) = (Some(at), Some(answered));
        }
        if !self.state.has_ended() {
            self.enter(RunState::Running, recorded);
        }
    }
}
