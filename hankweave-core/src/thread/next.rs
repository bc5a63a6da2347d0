//! Next codon (STATE-54).

use super::tip::ThreadTip;
use super::walk::rig_setup_target;
use crate::codon::CodonStatus;
use crate::document::{HankweaveState, RunRecord, RunStatus};
use crate::hank::OnFailure;
use crate::id::CodonId;

/// The rules of what is next (STATE-54) in their order; the first that applies decides.
///
/// They are about runs that ended by themselves. An interrupted run has neither completed nor failed: it
/// continues with the codon that was open, or with the one before which it paused.
pub(super) fn next_codon_id(thread: &ThreadTip<'_>, start: &RunRecord) -> Option<CodonId> {
    let state: &HankweaveState = &thread.state;
    let failed = start.status == RunStatus::Failed && !was_interrupted(start);
    if failed || thread.failed() || thread.has_running_codon() {
        return None;
    }
    let source = start.starting_conditions.source();
    if let Some(codon) = taken_up(start) {
        return Some(codon.clone());
    }
    let parent = source.and_then(|source| state.run(&source.run_id));
    if start.codons.is_empty()
        && let (Some(source), Some(parent)) = (source, parent)
        && rig_setup_target(parent, source).is_some()
    {
        return source.after_codon.clone();
    }
    if let Some(newest) = thread.newest() {
        let id = newest.codon.codon_id();
        if newest.codon.interruption().is_some() {
            return state.planned(id).map(|_| id.clone());
        }
        return match passed_over(thread, start) {
            Some(OnFailure::Retry) => Some(id.clone()),
            _ => successor(state, id),
        };
    }
    match source.and_then(|source| source.after_codon.as_ref()) {
        None => state.execution_plan.first().map(|entry| entry.codon_id.clone()),
        Some(_) if parent.is_none() => None,
        Some(after) => successor(state, after),
    }
}

/// Whether the run ended because it was interrupted. Older versions recorded that only for the codon.
pub(super) fn was_interrupted(run: &RunRecord) -> bool {
    let newest = run.codons.last();
    run.interrupted_by.is_some() || newest.is_some_and(|codon| codon.interruption().is_some())
}

/// Returns the policy because of which the failure of the newest codon does not block: its run continued after it until it was interrupted.
pub(super) fn passed_over(thread: &ThreadTip<'_>, start: &RunRecord) -> Option<OnFailure> {
    start.interrupted_by?;
    let newest = thread.newest()?.codon;
    let failed = newest.status() == CodonStatus::Failed && newest.interruption().is_none();
    let policy = thread.state.planned(newest.codon_id())?.codon.on_failure();
    (failed && policy != OnFailure::Abort).then_some(policy)
}

/// The codon that the run was opened to continue in the session of its agent, as long as it has not begun.
pub(super) fn taken_up(run: &RunRecord) -> Option<&CodonId> {
    let conditions = &run.starting_conditions;
    let is_due = run.codons.is_empty() && conditions.resumed_session().is_some();
    conditions.source().filter(|_| is_due)?.after_codon.as_ref()
}

/// The entry of the plan after `id`; `None` when it is the last one or not in the plan.
fn successor(state: &HankweaveState, id: &CodonId) -> Option<CodonId> {
    let next = state.execution_plan.get(state.planned_at(id)? + 1)?;
    Some(next.codon_id.clone())
}
