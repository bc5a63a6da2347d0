//! The part of the reducer for events of runs, and for events between runs: rollbacks, operations, answers to approvals and changes of the plan.

use std::collections::HashSet;
use std::sync::Arc;

use super::super::index::RecordPosition;
use super::super::rejected::{Rejected, already_ended, still_open};
use super::{Applied, Reducer, advance};
use crate::codon::{CodonPhase, CodonTransition, Fail};
use crate::document::{
    Approval, MisfitExtension, Operation, PendingRollback, PlanEntry, PlanExtension, RunRecord, SharedList,
};
use crate::id::RunId;
use crate::run::{self, RunTransition};
use crate::time::Timestamp;

/// Number of histories, the newest ones, whose plans are kept in addition to the plan in force. Every snapshot contains each of these plans.
const MOST_LEFT_PLANS: usize = 3;

impl Reducer<'_> {
    /// Puts the run in front, when no other is running (STATE-23).
    pub(super) fn start_run(&mut self, run: RunRecord) -> Result<Applied, Rejected> {
        if self.index.run(self.state, &run.run_id).is_some() {
            return Err(Rejected::Conflict(format!("run `{}` exists already", run.run_id)));
        }
        if let Some(running) = self.index.running_run(self.state) {
            let message = format!("run `{}` is still running", running.run_id);
            return Err(Rejected::Conflict(message));
        }
        if run.starting_conditions.source().is_none() {
            self.leave_plan();
        }
        self.state.pending_rollback = None;
        self.state.current_run_id = Some(run.run_id.clone());
        self.state.runs.push_front(Arc::new(run));
        self.index.run_started(self.state);
        Ok(Applied::TRANSITION)
    }

    /// The position of a run that has not ended.
    pub(super) fn running(&self, id: &RunId) -> Result<usize, Rejected> {
        let position = self.index.run(self.state, id);
        let position = position.ok_or_else(|| Rejected::not_found("run", id.as_str()))?;
        let status = self.state.runs[position].status;
        if status.is_terminal() {
            return Err(already_ended(id, status));
        }
        Ok(position)
    }

    /// Ends a run by a step of the run machine (STATE-24, STATE-25). A run with an open codon is not ended: the codon could never be closed again.
    pub(super) fn end_run(&mut self, id: &RunId, transition: RunTransition) -> Result<Applied, Rejected> {
        let position = self.running(id)?;
        if let Some(open) = self.index.open_codon(self.state, position) {
            return Err(still_open(&self.state.runs[position].codons[open]));
        }
        // A crash may be noted for a run that is not the current one; the current one then stays.
        let clears_current = !matches!(transition, RunTransition::Crash(_)) || self.is_current(position);
        self.run_mut(position)
            .end(transition)
            .map_err(|refused| already_ended(id, refused.from))?;
        if clears_current {
            self.state.current_run_id = None;
        }
        self.index.run_ended(self.state, position);
        Ok(Applied::TRANSITION)
    }

    /// Marks a run as crashed and fails the codon that it left open, in one step (L4).
    pub(super) fn crash_run(&mut self, id: &RunId, detected_at: Timestamp) -> Result<Applied, Rejected> {
        let run = self.running(id)?;
        let open = self.index.open_codon(self.state, run);
        if let Some(record) = open.map(|codon| RecordPosition { run, codon })
            && let Ok(phase) = CodonPhase::try_from(self.codon(record).status())
        {
            let crash = CodonTransition::Fail(Fail::crashed(detected_at));
            let changed = advance(self.codon(record), crash, phase)?;
            self.replace(record, changed);
        }
        let crash = run::Crash {
            end_time: detected_at,
        };
        self.end_run(id, crash.into())
    }

    /// Sets or clears the pending rollback. Files are never restored while a codon is open; a run whose codons have all ended may still be open (STATE-32).
    /// `plan` is the plan of the history that the rollback returns to (STATE-31).
    pub(super) fn set_rollback(
        &mut self,
        rollback: Option<PendingRollback>,
        plan: Option<&SharedList<PlanEntry>>,
    ) -> Result<Applied, Rejected> {
        if let Some(open) = self.index.live_codon(self.state) {
            return Err(still_open(open));
        }
        if let Some(rollback) = &rollback
            && self.index.run(self.state, &rollback.source.run_id).is_none()
        {
            return Err(Rejected::not_found("run", rollback.source.run_id.as_str()));
        }
        // With the files restored, the rollback has become an operation. It is recorded once, even if the event comes again.
        if let Some(PendingRollback {
            restored: true,
            operation: Some(operation),
            ..
        }) = &rollback
            && !self.knows_operation(operation)
        {
            Arc::make_mut(&mut self.state.operations).push(operation.clone());
        }
        if let (Some(back), Some(plan)) = (rollback.as_ref().filter(|back| back.restored), plan) {
            self.leave_plan();
            if let Some(root) = self.state.root_of(&back.source.run_id) {
                self.run_mut(root).left_plan = None;
            }
            self.state.execution_plan = plan.clone();
        }
        self.state.pending_rollback = rollback;
        Ok(Applied::TRANSITION)
    }

    /// Stores the plan in force in the run that started its history, for a later rollback to that history. Only the plans of the newest [`MOST_LEFT_PLANS`]
    /// histories stay stored.
    fn leave_plan(&mut self) {
        let Some(root) = self.state.root_in_force() else {
            return;
        };
        self.run_mut(root).left_plan = Some(self.state.execution_plan.clone());
        let has_plan = |(at, run): (usize, &Arc<RunRecord>)| run.left_plan.is_some().then_some(at);
        let kept: Vec<_> = self.state.runs.iter().enumerate().filter_map(has_plan).collect();
        for oldest in kept.into_iter().skip(MOST_LEFT_PLANS) {
            self.run_mut(oldest).left_plan = None;
        }
    }

    /// Records a cleanup once (RUN-23).
    pub(super) fn record_operation(&mut self, operation: &Operation) -> Result<Applied, Rejected> {
        if let Some(open) = self.index.live_codon(self.state) {
            return Err(still_open(open));
        }
        if self.index.run(self.state, &operation.behind).is_none() {
            return Err(Rejected::not_found("run", operation.behind.as_str()));
        }
        if self.knows_operation(operation) {
            let message = format!("operation `{}` is recorded already", operation.id);
            return Err(Rejected::Conflict(message));
        }
        Arc::make_mut(&mut self.state.operations).push(operation.clone());
        Ok(Applied::TRANSITION)
    }

    fn knows_operation(&self, operation: &Operation) -> bool {
        self.state.operations.iter().any(|known| known.id == operation.id)
    }

    /// Sets or clears the answer to an approval, which is given before its codon starts (STATE-65).
    pub(super) fn set_approval(&mut self, approval: Option<Approval>) -> Result<Applied, Rejected> {
        if let Some(open) = self.index.live_codon(self.state) {
            return Err(still_open(open));
        }
        if let Some(Approval { codon_id, .. }) = &approval
            && self.state.planned_at(codon_id).is_none()
        {
            return Err(Rejected::not_found("codon", codon_id.as_str()));
        }
        self.state.approval = approval;
        Ok(Applied::TRANSITION)
    }

    /// Replaces the plan by one that has no codon twice (STATE-31).
    pub(super) fn replace_plan(&mut self, plan: &SharedList<PlanEntry>) -> Result<Applied, Rejected> {
        let mut seen = HashSet::new();
        if let Some(twice) = plan.iter().find(|entry| !seen.insert(&entry.codon_id)) {
            let message = format!("codon `{}` is in the plan twice", twice.codon_id);
            return Err(Rejected::Conflict(message));
        }
        self.state.execution_plan = plan.clone();
        Ok(Applied::TRANSITION)
    }

    /// Changes the plan when a loop continues or ends (STATE-42).
    pub(super) fn extend_plan(&mut self, extension: &PlanExtension) -> Result<Applied, Rejected> {
        let extended = extension.extend(&mut self.state.execution_plan);
        extended.map_err(|misfit| match misfit {
            MisfitExtension::Unknown(id) => Rejected::not_found("codon", id.as_str()),
            misfit => Rejected::Conflict(misfit.to_string()),
        })?;
        Ok(Applied::TRANSITION)
    }
}
