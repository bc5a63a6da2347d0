//! Where a run stands, in one event (WIRE-16).

use super::{Event, FileNode};
use crate::document::HankweaveState;
use crate::thread::ExecutionThread;

/// Most ended codons in one snapshot. `history.sync` has all of them, and a long loop must not repeat them a thousand times.
pub const MAX_SNAPSHOT_CODONS: usize = 100;

impl Event {
    /// The state after the event before it; `thread` is that of `state`.
    #[must_use]
    pub fn state_snapshot(
        state: &HankweaveState,
        thread: &ExecutionThread,
        file_tree: Vec<FileNode>,
    ) -> Self {
        let codons = || thread.codons.iter().map(|entry| &entry.codon);
        let ended = codons().filter(|codon| codon.is_terminal());
        let duration = |codon: &std::sync::Arc<crate::codon::CodonExecution>| {
            u64::try_from(codon.duration()?.as_millis()).ok()
        };
        Self::StateSnapshot {
            current_codon: codons().find(|codon| !codon.is_terminal()).cloned(),
            completed_codons: ended.clone().take(MAX_SNAPSHOT_CODONS).cloned().collect(),
            file_tree,
            total_cost: state.total_cost(),
            total_spend: Some(state.total_spend()),
            total_time: ended.filter_map(duration).sum(),
            is_rolling_back: state.pending_rollback.is_some(),
        }
    }
}
