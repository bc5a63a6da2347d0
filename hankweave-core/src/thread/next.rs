//! Finds the codon that is next after a thread (STATE-54).

use super::tip::ThreadTip;
use super::walk::rig_setup_target;
use crate::codon::CodonStatus;
use crate::document::{HankweaveState, RunRecord, RunStatus};
use crate::hank::OnFailure;
use crate::id::CodonId;

/// Returns the next codon by the rules (STATE-54), in their order; the first that applies decides. `last_run` is the run that the thread ends in.
///
/// An interrupted run has neither completed nor failed: it continues with the codon that was open, or with the codon before which it paused.
pub(super) fn next_codon_id(thread: &ThreadTip<'_>, last_run: &RunRecord) -> Option<CodonId> {
    let state: &HankweaveState = &thread.state;
    let failed = last_run.status == RunStatus::Failed && !was_interrupted(last_run);
    if failed || thread.failed() || thread.has_running_codon() {
        return None;
    }
    let source = last_run.starting_conditions.source();
    if let Some(codon) = codon_to_resume(last_run) {
        return Some(codon.clone());
    }
    let parent = source.and_then(|source| state.run(&source.run_id));
    if last_run.codons.is_empty()
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
        return match policy_of_passed_failure(thread, last_run) {
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

/// Whether the run ended because it was interrupted. Older versions recorded an interruption only for the codon.
pub(super) fn was_interrupted(run: &RunRecord) -> bool {
    let newest = run.codons.last();
    run.interrupted_by.is_some() || newest.is_some_and(|codon| codon.interruption().is_some())
}

/// Returns the policy, retry or ignore, by which the run would have continued after the failure of the newest codon, if it was interrupted before it did so.
/// Such a failure does not block.
pub(super) fn policy_of_passed_failure(thread: &ThreadTip<'_>, last_run: &RunRecord) -> Option<OnFailure> {
    last_run.interrupted_by?;
    let newest = thread.newest()?.codon;
    let failed = newest.status() == CodonStatus::Failed && newest.interruption().is_none();
    let policy = thread.state.planned(newest.codon_id())?.codon.on_failure();
    (failed && policy != OnFailure::Abort).then_some(policy)
}

/// Returns the codon that the run was opened to resume in the session of its agent, as long as no codon of the run has started.
pub(super) fn codon_to_resume(run: &RunRecord) -> Option<&CodonId> {
    let conditions = &run.starting_conditions;
    if !run.codons.is_empty() || conditions.resumed_session().is_none() {
        return None;
    }
    conditions.source()?.after_codon.as_ref()
}

/// Returns the codon after `id` in the plan; `None` when `id` is the last one or not in the plan.
fn successor(state: &HankweaveState, id: &CodonId) -> Option<CodonId> {
    let next = state.execution_plan.get(state.planned_at(id)? + 1)?;
    Some(next.codon_id.clone())
}
