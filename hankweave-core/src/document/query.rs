//! Queries of the document: runs, plans, checkpoints, and sums of cost and tokens.

use std::collections::HashSet;
use std::sync::Arc;

use super::{ContinuationSource, HankweaveState, PlanEntry, Removed, RunRecord, RunStatus, SharedList};
use crate::codon::{CodonExecution, CodonStatus};
use crate::cost::{TokenUsage, UsageTotals, Usd};
use crate::id::{CheckpointSha, CodonId, RunId, SessionId};

impl HankweaveState {
    /// The run with this id.
    #[must_use]
    pub fn run(&self, id: &RunId) -> Option<&RunRecord> {
        self.runs.iter().map(Arc::as_ref).find(|run| run.run_id == *id)
    }

    /// The run that `currentRunId` names.
    #[must_use]
    pub fn current_run(&self) -> Option<&RunRecord> {
        self.run(self.current_run_id.as_ref()?)
    }

    /// Returns the position of the fresh run that started the history of a run.
    pub(crate) fn root_of(&self, id: &RunId) -> Option<usize> {
        let mut wanted = id;
        // The runs are newest first, and a run continues an older one, so one pass follows the sources to the fresh run.
        self.runs
            .iter()
            .position(|run| match run.starting_conditions.source() {
                _ if run.run_id != *wanted => false,
                Some(source) => {
                    wanted = &source.run_id;
                    false
                }
                None => true,
            })
    }

    /// Returns the position of the fresh run whose plan is in force: the newest one without a `left_plan`.
    pub(crate) fn root_in_force(&self) -> Option<usize> {
        let is_root = |run: &RunRecord| run.starting_conditions.source().is_none();
        self.runs
            .iter()
            .position(|run| is_root(run) && run.left_plan.is_none())
    }

    /// Returns the plan of the history that `position` belongs to, if that plan was left for another; `None` where it is in force or was not kept.
    #[must_use]
    pub fn left_plan_at(&self, position: &ContinuationSource) -> Option<&SharedList<PlanEntry>> {
        self.runs[self.root_of(&position.run_id)?].left_plan.as_ref()
    }

    /// The runs that are recorded as running, newest first. If the caller holds the instance lock, which a live run holds, they have crashed (L4).
    pub fn running_runs(&self) -> impl Iterator<Item = &RunRecord> {
        let runs = self.runs.iter().map(Arc::as_ref);
        runs.filter(|run| run.status == RunStatus::Running)
    }

    /// Returns the position of a codon in the plan.
    ///
    /// The search goes outward from the position that the runs have reached: decisions look for codons near it, however long the plan is.
    #[must_use]
    pub fn planned_at(&self, id: &CodonId) -> Option<usize> {
        let plan = &self.execution_plan;
        let ran: usize = self.runs.iter().map(|run| run.codons.len()).sum();
        let reached = ran.min(plan.len());
        let outward = (0..plan.len())
            .flat_map(|distance| [reached.checked_sub(distance + 1), reached.checked_add(distance)]);
        let mut inside = outward.flatten().filter(|position| *position < plan.len());
        inside.find(|position| plan[*position].codon_id == *id)
    }

    /// Returns the entry of the plan for this codon.
    #[must_use]
    pub fn planned(&self, id: &CodonId) -> Option<&PlanEntry> {
        Some(&self.execution_plan[self.planned_at(id)?])
    }

    /// Returns the usage of all ended attempts' agents in this session, and in the sessions of which it is a copy. An agent that reports the total of its
    /// session counts this usage again (AGENT-71).
    #[must_use]
    pub fn carried_in(&self, session: &SessionId) -> UsageTotals {
        // `seen` ends the search if sessions are copies of one another, as only a damaged file says.
        let (mut carried, mut seen) = (UsageTotals::default(), HashSet::new());
        let mut next = Some(session);
        while let Some(session) = next.filter(|session| seen.insert(*session)) {
            let used = self.used_in(session);
            carried.tokens += used.tokens;
            carried.cost += used.cost;
            carried.lower_bound |= used.lower_bound;
            // The record that opened the session; if it resumed another one, this session is a copy of that.
            let mut codons = self.runs.iter().flat_map(|run| &run.codons);
            let record = codons.find(|record| {
                record.agent_session_id() == Some(session) && record.previous_session_id() != Some(session)
            });
            next = record.and_then(|record| record.previous_session_id());
        }
        carried
    }

    /// Returns the usage of all ended attempts' agents in this session.
    #[must_use]
    pub fn used_in(&self, session: &SessionId) -> UsageTotals {
        let codons = self.runs.iter().flat_map(|run| &run.codons);
        let ended =
            codons.filter(|record| record.end_time().is_some() && record.agent_session_id() == Some(session));
        ended.fold(UsageTotals::default(), |mut used, record| {
            used.tokens += record.agent_tokens();
            used.cost += record.agent_cost();
            used.lower_bound |= record.agent_cost_is_lower_bound();
            used
        })
    }

    /// Iterates over the items that cleanups removed, oldest first.
    pub fn removed(&self) -> impl Iterator<Item = &Removed> {
        let operations = self.operations.iter();
        operations.filter_map(|operation| operation.removed.as_ref())
    }

    /// Returns the checkpoints that cleanups have removed; no rollback to them is possible.
    #[must_use]
    pub fn removed_checkpoints(&self) -> HashSet<&CheckpointSha> {
        self.removed().flat_map(|removed| &removed.checkpoints).collect()
    }

    /// Every commit that the document names: the first checkpoint, then those of the pending rollback, the operations and the runs. Blank ones and those that a
    /// cleanup has removed are left out.
    pub fn checkpoints(&self) -> impl Iterator<Item = &CheckpointSha> {
        let runs = self.runs.iter().flat_map(|run| {
            let codons = run.codons.iter().flat_map(|codon| codon.checkpoints());
            let start = run.starting_conditions.checkpoint();
            start.into_iter().chain(codons.map(|(_, sha)| sha))
        });
        let pending = self.pending_rollback.iter();
        let pending =
            pending.flat_map(|pending| pending.safety.iter().chain([&pending.source.checkpoint_sha]));
        let operations = self.operations.iter();
        let operations = operations
            .flat_map(|operation| [&operation.before.checkpoint_sha, &operation.after.checkpoint_sha]);
        let all = self.initial_checkpoint.iter().chain(pending).chain(operations);
        let all = all.chain(runs);
        let removed = self.removed_checkpoints();
        all.filter(move |sha| !sha.is_blank() && !removed.contains(sha))
    }

    /// Returns the cost of all codons of all runs (STATE-48); walks the whole history.
    #[must_use]
    pub fn total_cost(&self) -> Usd {
        self.runs.iter().map(|run| run.codon_cost()).sum()
    }

    /// Returns the spending of all runs, including skipped codons and sentinels; walks the whole history.
    #[must_use]
    pub fn total_spend(&self) -> Usd {
        self.runs.iter().map(|run| run.spend()).sum()
    }

    /// Whether more was spent in all runs than is known.
    #[must_use]
    pub fn cost_is_lower_bound(&self) -> bool {
        self.runs.iter().any(|run| run.cost_is_lower_bound())
    }
}

impl RunRecord {
    /// Returns the cost of the run's codons.
    #[must_use]
    pub fn codon_cost(&self) -> Usd {
        self.codons.iter().map(|codon| codon.codon_cost()).sum()
    }

    /// Returns the spending of the run, including skipped codons and sentinels.
    #[must_use]
    pub fn spend(&self) -> Usd {
        self.codons.iter().map(|codon| codon.spend()).sum()
    }

    /// Whether more was spent in the run than is known.
    #[must_use]
    pub fn cost_is_lower_bound(&self) -> bool {
        self.codons.iter().any(|codon| codon.cost_is_lower_bound())
    }

    /// Whether more was spent than is recorded, or an agent works and may be in the middle of an answer.
    #[must_use]
    pub fn spends_at_least(&self) -> bool {
        let works = |open: &CodonExecution| open.status() == CodonStatus::Running;
        self.cost_is_lower_bound() || self.open_codon().is_some_and(works)
    }

    /// Returns the tokens of the run's codons, by the rule of [`codon_cost`](Self::codon_cost).
    #[must_use]
    pub fn codon_tokens(&self) -> TokenUsage {
        self.codons.iter().map(|codon| codon.codon_tokens()).sum()
    }
}
