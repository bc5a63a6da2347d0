//! State of a run: the answer to the command `state.snapshot` (WIRE-16).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::FileNode;
use crate::codon::CodonExecution;
use crate::cost::Usd;
use crate::document::HankweaveState;
use crate::thread::ExecutionThread;

/// Most ended codons in one snapshot. `history.sync` has all of them.
pub const MAX_SNAPSHOT_CODONS: usize = 100;

/// State of a run.
///
/// It goes to the client that asked and is not recorded: the events before it have this information, and a journal with a snapshot for each codon
/// consisted of little else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RunSnapshot {
    /// The codon that has not ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_codon: Option<Arc<CodonExecution>>,
    /// The codons of the thread that have ended, newest first; the 100 newest of them.
    pub completed_codons: Vec<Arc<CodonExecution>>,
    /// The files that checkpoints hold.
    pub file_tree: Vec<FileNode>,
    /// All codons of all runs, in US dollars; skipped ones count nothing.
    pub total_cost: Usd,
    /// Spending of all runs, in US dollars, including skipped codons and sentinels.
    pub total_spend: Usd,
    /// How long the codons of the thread took, in milliseconds.
    pub total_time: u64,
    /// Whether the files have been rolled back and no run has continued from there yet.
    pub is_rolling_back: bool,
    /// The newest event that it takes into account.
    pub seq: u64,
}

impl RunSnapshot {
    /// Returns the state after the event `seq`; `thread` is the one that ends in its newest run.
    #[must_use]
    pub fn of(state: &HankweaveState, thread: &ExecutionThread, file_tree: Vec<FileNode>, seq: u64) -> Self {
        let codons = || thread.codons.iter().map(|entry| &entry.codon);
        let ended = codons().filter(|codon| codon.is_terminal());
        let duration = |codon: &Arc<CodonExecution>| u64::try_from(codon.duration()?.as_millis()).ok();
        Self {
            current_codon: codons().find(|codon| !codon.is_terminal()).cloned(),
            completed_codons: ended.clone().take(MAX_SNAPSHOT_CODONS).cloned().collect(),
            file_tree,
            total_cost: state.total_cost(),
            total_spend: state.total_spend(),
            total_time: ended.filter_map(duration).sum(),
            is_rolling_back: state.pending_rollback.is_some(),
            seq,
        }
    }
}
