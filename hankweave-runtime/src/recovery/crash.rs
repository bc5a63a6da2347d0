//! Closing what an earlier server left open.

use std::sync::Arc;

use hankweave_core::event::StateEvent;
use hankweave_core::run::{self, Crash};
use hankweave_core::state::{HankweaveState, Run};
use hankweave_core::time::Timestamp;

use crate::codon::marker;

/// The markers of what a crashed server may have left running ("reliability and security", promise P9): the agent of the open codon, or what
/// followed the end of the last one.
pub(super) fn markers(state: &HankweaveState) -> Vec<String> {
    let newest = |run: &Run| {
        let last = || run.codons.last().map(Arc::as_ref);
        Some(marker(&run.run_id, run.open_codon().or_else(last)?.codon_id()))
    };
    state.running_runs().filter_map(newest).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    // State model, section 10, row 12: also the current run, and every other one that nobody closed.
    #[test]
    fn every_run_that_was_left_running_has_crashed() {
        let run = |id: &str, status: &str| {
            serde_json::json!({
                "runId": id, "runFolder": format!("/p/{id}"), "gitBranch": format!("run-{id}"), "codons": [], "serverPid": 1,
                "startingConditions": {"type": "fresh"}, "status": status, "startTime": "2025-01-04T12:00:00.000Z",
            })
        };
        let document = serde_json::json!({
            "runs": [run("current", "running"), run("older", "running"), run("ended", "failed")],
            "currentRunId": "current", "executionPlan": [],
        });
        let state = hankweave_core::state::parse(document.to_string().as_bytes()).unwrap();
        let crashed = crashes(&state, Timestamp::UNIX_EPOCH);
        let runs: Vec<_> = crashed
            .iter()
            .filter_map(StateEvent::run_id)
            .map(|id| id.as_str())
            .collect();
        assert_eq!(runs, ["current", "older"]);
    }
}
