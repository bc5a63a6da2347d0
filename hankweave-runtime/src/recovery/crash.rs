//! Closing what an earlier server left open.

use hankweave_core::event::StateEvent;
use hankweave_core::run::{self, Crash};
use hankweave_core::state::{HankweaveState, Run};
use hankweave_core::time::Timestamp;

use crate::codon::marker;

/// The markers of the agents that a crashed server may have left running ("reliability and security", promise P9).
pub(super) fn markers(state: &HankweaveState) -> Vec<String> {
    let open = |run: &Run| Some(marker(&run.run_id, run.open_codon()?.codon_id()));
    state.running_runs().filter_map(open).collect()
}

/// One event for each run that is recorded as running. We hold the lock, so its server is gone, whatever `currentRunId`
/// and the recorded pid say ("reliability and security", rule L4).
pub(super) fn crashes(state: &HankweaveState, now: Timestamp) -> Vec<StateEvent> {
    state
        .running_runs()
        .filter_map(|run| {
            let open = run.open_codon().map(|codon| codon.status());
            let running = run::Run::<run::Running>::try_from(run.life()).ok()?;
            let crashed = running.step(Crash { end_time: now });
            Some(StateEvent::run_ended(run.run_id.clone(), &crashed.event, open))
        })
        .collect()
}
