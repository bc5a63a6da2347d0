//! The runs that belong to the history of a thread, and the codons in them that count no longer because they were undone or ran again.

use std::collections::HashSet;

use super::ExecutionThread;
use crate::document::{HankweaveState, RunRecord, StartingConditions};
use crate::id::{CheckpointSha, RunId};

/// Counts the runs from the newest one back to the first run of the thread; with a pending rollback, of the thread at its target. All of them are at the front
/// of the list, since a run can only continue an older one.
#[must_use]
pub fn runs_of_history(state: &HankweaveState) -> usize {
    // The number of runs from the newest one up to the run `id`, which is not among the first `from`.
    let until = |id: &RunId, from: usize| {
        let mut older = state.runs.iter().skip(from);
        older
            .position(|run| run.run_id == *id)
            .map(|distance| from + distance + 1)
    };
    let source = |count: usize| {
        let oldest = state.runs.get(count.checked_sub(1)?)?;
        oldest.starting_conditions.source()
    };
    let pending = state.pending_rollback.as_ref();
    let rolled_back = pending.and_then(|pending| until(&pending.source.run_id, 0));
    let mut count = rolled_back.unwrap_or_else(|| usize::from(!state.runs.is_empty()));
    while let Some(older) = source(count).and_then(|source| until(&source.run_id, count)) {
        count = older;
    }
    count
}

/// Returns the checkpoint of the files with which the thread started, those of its first run. That run is not the first of the document if the user started
/// over.
#[must_use]
pub fn files_of_start(state: &HankweaveState) -> Option<&CheckpointSha> {
    let first = runs_of_history(state).checked_sub(1);
    let first = first.and_then(|at| state.runs.get(at));
    // Without a fresh run the start of the thread is lost: its first run continues one that the document does not have.
    let fresh = first.map(|run| &run.starting_conditions);
    let fresh = fresh.filter(|conditions| conditions.source().is_none());
    fresh
        .and_then(StartingConditions::checkpoint)
        .filter(|sha| !sha.is_blank())
        .or(state.initial_checkpoint.as_ref())
}

/// Attempts that count no longer: the run of each, and its position in that run.
pub type UndoneAttempts<'s> = HashSet<(&'s RunId, usize)>;

impl ExecutionThread {
    /// Returns the codons of this history that count no longer, because a rollback undid them or they ran again: newest run first, each with its position in
    /// its run. The thread must be the one that ends in the newest run of `state`.
    pub fn undone_codons<'s>(
        &self,
        state: &'s HankweaveState,
    ) -> impl Iterator<Item = (&'s RunRecord, usize)> {
        let counting: HashSet<_> = self
            .codons
            .iter()
            .map(|entry| (&entry.run_id, entry.codon_index_in_run))
            .collect();
        let own = state.runs.iter().take(runs_of_history(state));
        let all = own.flat_map(|run| (0..run.codons.len()).map(|at| (run.as_ref(), at)));
        all.filter(move |(run, at)| !counting.contains(&(&run.run_id, *at)))
    }

    /// Returns the [codons that count no longer](Self::undone_codons) as a set.
    #[must_use]
    pub fn undone_attempts<'s>(&self, state: &'s HankweaveState) -> UndoneAttempts<'s> {
        let undone = self.undone_codons(state);
        undone.map(|(run, at)| (&run.run_id, at)).collect()
    }
}
