//! Closing what an earlier server left open.

use hankweave_core::event::StateEvent;
use hankweave_core::state::HankweaveState;
use hankweave_core::time::Timestamp;

/// One event for each run that is recorded as running. We hold the lock, so its server is gone, whatever `currentRunId`
/// and the recorded pid say ("reliability and security", rule L4).
pub(super) fn crashes(state: &HankweaveState, now: Timestamp) -> Vec<StateEvent> {
    state
        .running_runs()
        .map(|run| StateEvent::RunCrashed {
            run_id: run.run_id.clone(),
            detected_at: now,
            last_codon_status: run.open_codon().map(|codon| codon.status()).into(),
        })
        .collect()
}
