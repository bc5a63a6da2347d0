//! Files with which the work began that a rollback undoes (RUN-2).

use super::{ExecutionThread, ThreadCodon};
use crate::codon::CheckpointType;
use crate::document::{ContinuationReason, ContinuationSource, HankweaveState, StartingConditions};
use crate::id::CheckpointSha;

/// Beginning of the work that a rollback undoes.
#[derive(Debug, Clone)]
pub struct StartOfWork<'t> {
    /// The oldest codon that is undone.
    pub first: &'t ThreadCodon,
    /// Checkpoint of the files with which it started: those of the target, with all changes of the user since then.
    pub checkpoint: CheckpointSha,
}

impl ExecutionThread {
    /// Returns the beginning of the work that a rollback to `source` undoes.
    ///
    /// `None` where it is not recorded, and where the files of that moment held unfinished work already: those of an attempt that the user ran again with the
    /// files as they were, or of a rig.
    #[must_use]
    pub fn start_of_undone(
        &self,
        state: &HankweaveState,
        source: &ContinuationSource,
    ) -> Option<StartOfWork<'_>> {
        let is_target = |entry: &ThreadCodon| {
            entry.run_id == source.run_id && Some(entry.codon.codon_id()) == source.after_codon.as_ref()
        };
        let count = match &source.after_codon {
            Some(_) => self.codons.iter().position(is_target)?,
            None => self.codons.len(),
        };
        let first = self.codons.get(count.checked_sub(1)?)?;
        let run = state.run(&first.run_id)?;
        if first.codon_index_in_run == 0 && holds_work(state, &run.starting_conditions) {
            return None;
        }
        let checkpoint = first.codon.start_checkpoint()?;
        Some(StartOfWork { first, checkpoint })
    }
}

/// Whether a run that started this way began with unfinished work in its files.
fn holds_work(state: &HankweaveState, conditions: &StartingConditions) -> bool {
    let StartingConditions::Continuation { source, reason, .. } = conditions else {
        return false;
    };
    let is_rig = source.checkpoint_type(state) == Some(CheckpointType::RigSetup);
    is_rig || *reason == Some(ContinuationReason::Retry)
}
