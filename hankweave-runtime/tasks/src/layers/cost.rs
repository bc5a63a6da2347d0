//! Cost of a task so far: one account for every reader (TASK-121).

use hankweave_core::codon::{CodonExecution, CodonStatus};
use hankweave_core::cost::Usd;
use hankweave_core::document::RunRecord;
use hankweave_remote::history;
use hankweave_runtime::ExecutionDir;
use hankweave_task_model::registry::{TaskCost, TaskRow};
use hankweave_task_model::task::TaskRecord;

use super::WORKSPACE;
use super::files::TaskFiles;

/// Cost of the runs of a task, by their own record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RecordedCost {
    pub(crate) spend: Usd,
    /// Whether more was spent than is known; what an open codon has used is not known before it ends.
    pub(crate) is_lower_bound: bool,
    /// Whether an agent works, or did when its run was killed.
    pub(crate) is_open: bool,
    /// Whether the newest of these runs spent more than is known.
    pub(crate) newest_is_lower_bound: bool,
    /// Number of these runs.
    pub(crate) runs: usize,
}

impl RecordedCost {
    /// Returns the sum of runs, newest first.
    fn of<'r>(runs: impl Iterator<Item = &'r RunRecord>) -> Self {
        runs.fold(Self::default(), |sum, run| {
            // The agent of a codon that starts has spent nothing yet, as `status` counts it.
            let works = |open: &CodonExecution| open.status() == CodonStatus::Running;
            let is_open = run.open_codon().is_some_and(works);
            let is_lower_bound = is_open || run.cost_is_lower_bound();
            Self {
                spend: sum.spend + run.spend(),
                is_lower_bound: sum.is_lower_bound || is_lower_bound,
                newest_is_lower_bound: match sum.runs {
                    0 => is_lower_bound,
                    _ => sum.newest_is_lower_bound,
                },
                is_open: sum.is_open || is_open,
                runs: sum.runs + 1,
            }
        })
    }
}

/// Cost of the runs in a record, of those before an attempt and of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SplitCost {
    pub(crate) earlier: RecordedCost,
    pub(crate) attempt: RecordedCost,
}

impl TaskFiles {
    /// Returns the cost in the record of the runs; `None` where there is none that can be read. It blocks.
    pub(crate) fn recorded_cost(&self) -> Option<RecordedCost> {
        Some(self.split_cost(0)?.attempt)
    }

    /// Returns the cost in the record of the runs, split after the oldest `earlier` ones; `None` where there is none that can be read. It blocks.
    pub(crate) fn split_cost(&self, earlier: usize) -> Option<SplitCost> {
        let dir = ExecutionDir::new(self.path().join(WORKSPACE));
        let state = history(self.layers.world(), &dir).ok()?;
        // The newest run is the first one.
        let own = state.runs.len().saturating_sub(earlier);
        let runs = || state.runs.iter().map(|run| &**run);
        Some(SplitCost {
            earlier: RecordedCost::of(runs().skip(own)),
            attempt: RecordedCost::of(runs().take(own)),
        })
    }

    /// Returns the cost of the task so far, with the attempt that is made: what its registry has, or what its files have, whichever is more; `None` for a task that no
    /// worker has run. It blocks.
    #[must_use]
    pub fn cost(&self, row: &TaskRow) -> Option<TaskCost> {
        let noted = TaskCost::of(&row.record);
        match &row.record {
            TaskRecord::Running(running) if !running.by_hand => {
                Some(self.running_cost(noted.unwrap_or_default()))
            }
            _ => noted,
        }
    }

    /// Returns the cost of a running task after attempts with the cost `earlier`.
    fn running_cost(&self, earlier: TaskCost) -> TaskCost {
        let state = self.load_state().ok();
        // Files of another registry's task say nothing of this one.
        let recorded = state.as_ref().and_then(|_| self.recorded_cost());
        let in_state = state.flatten().and_then(|state| TaskCost::of_data(&state.data));
        let in_state = in_state.unwrap_or_default();
        let spend = recorded.map_or(Usd::ZERO, |recorded| recorded.spend);
        let cost = earlier.cost.max(in_state.cost).max(spend);
        let is_open = recorded.is_none_or(|recorded| recorded.is_open);
        let is_lower_bound =
            in_state.cost_is_lower_bound || recorded.is_none_or(|recorded| recorded.is_lower_bound);
        let has_spent = cost > earlier.cost;
        let is_of_newest = has_spent && recorded.is_some_and(|recorded| recorded.newest_is_lower_bound);
        TaskCost {
            cost,
            last_attempt_cost: cost.saturating_sub(earlier.cost),
            last_attempt_cost_is_lower_bound: is_open
                || is_of_newest
                || (is_lower_bound && !earlier.cost_is_lower_bound),
            cost_is_lower_bound: earlier.cost_is_lower_bound || is_lower_bound,
            budget: earlier.budget,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // covers: TASK-121
    #[test]
    fn the_newest_run_is_told_from_those_before_it() {
        let run = |id: &str, is_lower_bound: bool| {
            let tokens =
                json!({"inputTokens": 0, "outputTokens": 0, "cacheCreationTokens": 0, "cacheReadTokens": 0});
            json!({
                "runId": id, "runFolder": "/p/r", "gitBranch": "run-r", "serverPid": 1, "status": "failed",
                "startingConditions": {"type": "fresh", "initialCheckpointSha": "s0"},
                "startTime": "2025-01-04T12:00:00.000Z", "endTime": "2025-01-04T12:00:01.000Z",
                "codons": [{"codonId": "a", "status": "failed", "startTime": "2025-01-04T12:00:00.000Z",
                    "endTime": "2025-01-04T12:00:01.000Z", "failedDuring": "running", "exitCode": 1,
                    "failureReason": {"type": "unknown", "retriable": false}, "partialCost": 0.1, "partialTokens": tokens,
                    "costIsLowerBound": is_lower_bound}],
            })
        };
        let recorded = |newest: bool, oldest: bool| {
            let runs = [run("newest", newest), run("oldest", oldest)];
            let document = json!({"runs": runs, "currentRunId": null, "executionPlan": []}).to_string();
            let state = hankweave_core::document::parse(document.as_bytes()).unwrap();
            RecordedCost::of(state.runs.iter().map(|run| &**run))
        };
        let flags = |cost: RecordedCost| (cost.is_lower_bound, cost.newest_is_lower_bound);
        assert_eq!(flags(recorded(false, true)), (true, false));
        assert_eq!(flags(recorded(true, true)), (true, true));
        assert_eq!(flags(recorded(false, false)), (false, false));
    }
}
