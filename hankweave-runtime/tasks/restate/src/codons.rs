//! Successful codons, as the run itself has recorded them (TASK-87).

use hankweave_core::codon::CodonExecution;
use hankweave_core::cost::Usd;
use hankweave_core::document::HankweaveState;
use hankweave_core::id::{CodonId, RunId};
use hankweave_core::time::Timestamp;
use serde::{Deserialize, Serialize};

/// Codon that succeeded. A second success of the codon, after a rollback, has another run or start time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CompletedCodon {
    run_id: RunId,
    pub(crate) codon_id: CodonId,
    start_time: Timestamp,
    end_time: Timestamp,
    cost: Usd,
}

impl CompletedCodon {
    /// Whether `other` is the same execution of the codon.
    pub(crate) fn is(&self, other: &Self) -> bool {
        (&self.run_id, &self.codon_id, self.start_time) == (&other.run_id, &other.codon_id, other.start_time)
    }
}

/// Returns all successes of this history, oldest first.
pub(crate) fn successes(state: &HankweaveState) -> Vec<CompletedCodon> {
    // Runs are listed newest first, codons in a run oldest first.
    let codons = state
        .runs
        .iter()
        .rev()
        .flat_map(|run| run.codons.iter().map(move |codon| (&run.run_id, codon)));
    codons
        .filter_map(|(run_id, codon)| match codon.as_ref() {
            CodonExecution::Completed(completed) => Some(CompletedCodon {
                run_id: run_id.clone(),
                codon_id: completed.codon_id.clone(),
                start_time: completed.start_time,
                end_time: completed.end_time,
                cost: completed.final_cost,
            }),
            _ => None,
        })
        .collect()
}
