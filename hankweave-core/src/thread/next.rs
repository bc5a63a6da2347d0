//! What runs next ("execution thread", "`nextCodonId`").

use super::ExecutionThread;
use super::walk::rig_setup_target;
use crate::id::CodonId;
use crate::state::{HankweaveState, Run, RunStatus};

/// The eight rules in their order; the first that applies decides.
pub(super) fn next_codon_id(
    state: &HankweaveState,
    start: &Run,
    thread: &ExecutionThread,
) -> Option<CodonId> {
    if start.status == RunStatus::Failed || thread.failed || thread.has_running_codon {
        return None;
    }
    let source = start.starting_conditions.source();
    let parent = source.and_then(|source| state.run(&source.run_id));
    if start.codons.is_empty()
        && let (Some(source), Some(parent)) = (source, parent)
        && rig_setup_target(parent, source).is_some()
    {
        return source.after_codon.clone();
    }
    if let Some(newest) = thread.codons.first() {
        return successor(state, newest.codon.codon_id());
    }
    match source.and_then(|source| source.after_codon.as_ref()) {
        None => state.execution_plan.first().map(|entry| entry.codon_id.clone()),
        Some(_) if parent.is_none() => None,
        Some(after) => successor(state, after),
    }
}

/// The entry of the plan behind `id`; `None` when it is the last one or not in the plan.
fn successor(state: &HankweaveState, id: &CodonId) -> Option<CodonId> {
    let position = state
        .execution_plan
        .iter()
        .position(|entry| entry.codon_id == *id)?;
    state
        .execution_plan
        .get(position + 1)
        .map(|entry| entry.codon_id.clone())
}
