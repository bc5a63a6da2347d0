//! Cost of a task so far, computed in one way for every reader (TASK-121) from three sources, each of which may lack something:
//!
//! - the registry, which gets the cost when an attempt ends ([`TaskCost::of`]);
//! - the data in state.json, which a worker updates during its attempt ([`TaskCost::of_data`]);
//! - the record of the runs in the workspace, which a run writes itself ([`RecordedCost`]).
//!
//! A task can *go on elsewhere*: a later attempt works with another folder, so the files here are older than the registry.

use hankweave_core::codon::{CodonExecution, CodonStatus};
use hankweave_core::cost::Usd;
use hankweave_core::document::{HankweaveState, RunRecord};
use hankweave_core::time::Timestamp;
use hankweave_remote::history;
use hankweave_runtime::ExecutionDir;
use hankweave_task_model::TaskState;
use hankweave_task_model::registry::{TaskCost, TaskRow};
use hankweave_task_model::task::TaskRecord;
use serde_json::{Map, Value, json};

use super::WORKSPACE;
use super::files::TaskFiles;

/// Cost of several runs, from the record in the workspace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RecordedCost {
    /// Cost of the runs.
    pub(crate) spend: Usd,
    /// Whether more was spent than is known. The cost of an open codon is unknown until the codon ends.
    pub(crate) is_lower_bound: bool,
    /// Whether an agent works, or worked when its run was killed.
    pub(crate) is_open: bool,
    /// Whether the newest run spent more than is known.
    pub(crate) newest_is_lower_bound: bool,
    /// Number of the runs.
    pub(crate) runs: usize,
}

impl RecordedCost {
    /// Returns the sum of runs, newest first.
    fn of<'r>(runs: impl Iterator<Item = &'r RunRecord>) -> Self {
        runs.fold(Self::default(), |sum, run| {
            // The agent of a codon that starts has spent nothing yet; the command `status` counts in the same way.
            let agent_works = |open: &CodonExecution| open.status() == CodonStatus::Running;
            let is_open = run.open_codon().is_some_and(agent_works);
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

/// Cost of the recorded runs, split into those before an attempt and those of the attempt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SplitCost {
    pub(crate) earlier: RecordedCost,
    pub(crate) attempt: RecordedCost,
}

impl TaskFiles {
    /// Returns the recorded cost of all runs; `None` if there is no readable record. Blocks.
    pub(crate) fn recorded_cost(&self) -> Option<RecordedCost> {
        // Without earlier runs, all runs count as those of the attempt.
        Some(self.split_cost(0)?.attempt)
    }

    /// Whether the newest attempt has noted its progress in these files. Until then their data, and a live run, belong to an earlier attempt. Blocks.
    #[must_use]
    pub fn has_newest_attempt(&self, row: &TaskRow) -> bool {
        let state = self.load_state().ok().flatten();
        state.is_some_and(|state| is_progress_of(&state, row.fencing_token))
    }

    /// Returns the record of the runs; `None` if there is no readable record. Blocks.
    fn record(&self) -> Option<HankweaveState> {
        let dir = ExecutionDir::new(self.path().join(WORKSPACE));
        history(self.layers.world(), &dir).ok()
    }

    /// Returns the amount spent by recorded runs that started no later than `until`; `None` if there is no readable record. Blocks.
    fn spend_until(&self, until: Option<Timestamp>) -> Option<Usd> {
        let state = self.record()?;
        let counted = state
            .runs
            .iter()
            .filter(|run| until.is_none_or(|until| run.start_time <= until));
        Some(counted.map(|run| run.spend()).sum())
    }

    /// Returns the recorded cost of the runs, split after the `earlier` oldest ones; `None` if there is no readable record. Blocks.
    pub(crate) fn split_cost(&self, earlier: usize) -> Option<SplitCost> {
        let state = self.record()?;
        // Runs are listed newest first.
        let attempt_runs = state.runs.len().saturating_sub(earlier);
        let runs = || state.runs.iter().map(|run| &**run);
        Some(SplitCost {
            earlier: RecordedCost::of(runs().skip(attempt_runs)),
            attempt: RecordedCost::of(runs().take(attempt_runs)),
        })
    }

    /// Returns the cost of the task so far, including the current attempt: the cost in its registry or in its files, whichever is more. `None` for a
    /// task that no worker has run. Blocks.
    #[must_use]
    pub fn cost(&self, row: &TaskRow) -> Option<TaskCost> {
        let noted = TaskCost::of(&row.record);
        let is_elsewhere = self.went_on_in(row).is_some();
        match &row.record {
            TaskRecord::Running(running) if !running.by_hand => {
                let earlier = noted.unwrap_or_default();
                let attempt = running.attempt.number();
                Some(match is_elsewhere {
                    // These files do not show what the attempt elsewhere has spent.
                    true => TaskCost {
                        last_attempt_cost: Usd::ZERO,
                        last_attempt_cost_is_lower_bound: true,
                        cost_is_lower_bound: true,
                        ..self.at_least_recorded(self.without_own(earlier, attempt), None, is_elsewhere)
                    },
                    false => self.running_cost(row.fencing_token, attempt, earlier),
                })
            }
            record => {
                let has_ended = matches!(record, TaskRecord::Completed(_) | TaskRecord::Deleted(_));
                // A run after the task's end was started by a user, and is no part of the task.
                let until = (has_ended && !is_elsewhere).then_some(row.updated_at);
                noted.map(|noted| match noted.cost_is_lower_bound {
                    true => self.at_least_recorded(noted, until, is_elsewhere),
                    false => noted,
                })
            }
        }
    }

    /// Returns the noted cost for [`at_least_recorded`](Self::at_least_recorded), while this `attempt` works elsewhere. The noted last attempt is then the
    /// one before it. If that one worked with these files, it is among the recorded attempts: with a cost of zero it is not subtracted from theirs. Blocks.
    fn without_own(&self, noted: TaskCost, attempt: u32) -> TaskCost {
        let state = self.load_state().ok().flatten();
        let attempt_here = state.and_then(|state| state.data.get("attempt")?.as_u64());
        match attempt_here.is_some_and(|here| here + 1 >= u64::from(attempt)) {
            true => TaskCost {
                last_attempt_cost: Usd::ZERO,
                ..noted
            },
            false => noted,
        }
    }

    /// Adds to the cost the amount that an attempt spent before it lost its worker, in runs that started no later than `until`. The registry cannot
    /// know this amount: it is the recorded spend that exceeds the `known` cost of the recorded attempts. If the task went on elsewhere (`is_elsewhere`), the
    /// recorded attempts are those before its last attempt, or before it started anew.
    fn at_least_recorded(&self, noted: TaskCost, until: Option<Timestamp>, is_elsewhere: bool) -> TaskCost {
        let spend = self.spend_until(until).unwrap_or(Usd::ZERO);
        let known = match (is_elsewhere, noted.before_anew) {
            (true, Some(before)) => before,
            (true, None) => noted.cost.saturating_sub(noted.last_attempt_cost),
            (false, before) => noted.cost.saturating_sub(before.unwrap_or_default()),
        };
        let more = spend.saturating_sub(known);
        let is_spent_by_last = noted.last_attempt_cost_is_lower_bound && !is_elsewhere;
        TaskCost {
            cost: noted.cost + more,
            last_attempt_cost: match is_spent_by_last {
                true => noted.last_attempt_cost + more,
                false => noted.last_attempt_cost,
            },
            before_anew: match is_elsewhere {
                true => noted.before_anew.map(|before| before + more),
                false => noted.before_anew,
            },
            ..noted
        }
    }

    /// Returns the cost of a task whose current `attempt` is made by the holder of `token`, after attempts with the cost `earlier`.
    fn running_cost(&self, token: u64, attempt: u32, earlier: TaskCost) -> TaskCost {
        let state = self.load_state().ok();
        // Files of another registry's task, whose state cannot be loaded, say nothing about this task.
        let recorded = state.as_ref().and_then(|_| self.recorded_cost());
        let state = state.flatten();
        let in_state = state.as_ref().and_then(|state| TaskCost::of_data(&state.data));
        let in_state = in_state.unwrap_or_default();
        let spend = recorded.map_or(Usd::ZERO, |recorded| recorded.spend);
        // Whether this attempt has written into the state. Before that, the state is of an earlier attempt.
        let is_here = state.as_ref().is_some_and(|state| is_progress_of(state, token));
        let own_state = state.as_ref().filter(|_| is_here);
        let recorded_before = own_state.and_then(|state| RecordedBefore::of(state, attempt));
        // The record of an attempt that started anew lacks the runs before it, so the growth of the record is added to the earlier cost.
        let by_record = recorded_before.map_or(spend, |before| {
            earlier.cost.max(before.spend) + spend.saturating_sub(before.spend)
        });
        // Only this attempt's own runs: the run of a suspended earlier worker may spend after this attempt has started.
        let own_runs = recorded_before.and_then(|before| self.split_cost(before.runs?));
        let own_cost = own_runs.map(|split| split.attempt.spend.max(in_state.last_attempt_cost));
        let cost = earlier.cost.max(in_state.cost).max(by_record);
        let is_open = recorded.is_none_or(|recorded| recorded.is_open);
        let is_lower_bound =
            in_state.cost_is_lower_bound || recorded.is_none_or(|recorded| recorded.is_lower_bound);
        // Cost of the earlier attempts. Those that lost their workers may have spent amounts unknown to the registry. Until this attempt writes into
        // the state, the total cost counts as theirs.
        let before = match (is_here, own_cost) {
            (true, Some(own_cost)) => cost.saturating_sub(own_cost),
            (true, None) => earlier
                .cost
                .max(in_state.cost.saturating_sub(in_state.last_attempt_cost)),
            (false, _) => cost,
        };
        // If this attempt has spent something, the newest run counts as its own.
        let has_spent = cost > before;
        let is_of_newest = has_spent && recorded.is_some_and(|recorded| recorded.newest_is_lower_bound);
        TaskCost {
            cost,
            last_attempt_cost: cost.saturating_sub(before),
            last_attempt_cost_is_lower_bound: !is_here
                || is_open
                || is_of_newest
                || (is_lower_bound && !earlier.cost_is_lower_bound),
            cost_is_lower_bound: !is_here || earlier.cost_is_lower_bound || is_lower_bound,
            budget: earlier.budget,
            before_anew: earlier.before_anew,
        }
    }
}

/// Keys in the data of a state: cost and number of the recorded runs before the attempt.
const RECORDED_BEFORE: &str = "recordedBefore";
const RUNS_BEFORE: &str = "runsBefore";

/// Key in the data of a state: token of the worker whose attempt wrote the data. The token of the state itself may be later, from a worker that has
/// claimed the task but noted nothing yet.
const ATTEMPT_TOKEN: &str = "attemptToken";

/// Whether the data of a state belong to the attempt of this token's holder.
fn is_progress_of(state: &TaskState, token: u64) -> bool {
    match state.data.get(ATTEMPT_TOKEN).and_then(Value::as_u64) {
        Some(noted) => noted == token,
        // Workers of older versions note no token.
        None => state.fencing_token == Some(token),
    }
}

/// Recorded runs before an attempt, as the attempt's worker noted them when it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordedBefore {
    /// Cost of the runs.
    pub(crate) spend: Usd,
    /// Number of runs; absent in notes of older versions.
    pub(crate) runs: Option<usize>,
}

impl RecordedBefore {
    /// Reads the note; `None` if it is of another attempt or missing.
    fn of(state: &TaskState, attempt: u32) -> Option<Self> {
        let is_of_attempt = state.data.get("attempt")?.as_u64() == Some(attempt.into());
        let spend = state.data.get(RECORDED_BEFORE).filter(|_| is_of_attempt)?;
        let runs = state.data.get(RUNS_BEFORE).and_then(Value::as_u64);
        Some(Self {
            spend: serde_json::from_value(spend.clone()).ok()?,
            runs: runs.and_then(|runs| usize::try_from(runs).ok()),
        })
    }

    /// Replaces the note in the data of a state. `token` is the token of the attempt's worker.
    pub(crate) fn put_into(before: Option<Self>, token: u64, data: &mut Map<String, Value>) {
        data.insert(ATTEMPT_TOKEN.to_owned(), json!(token));
        let spend = before.map(|before| before.spend);
        let runs = before.and_then(|before| before.runs);
        data.insert(RECORDED_BEFORE.to_owned(), json!(spend));
        data.insert(RUNS_BEFORE.to_owned(), json!(runs));
    }
}

#[cfg(test)]
mod tests {
    use hankweave_core::id::TaskId;
    use hankweave_runtime::world::World;
    use hankweave_task_model::registry::NewTask;

    use super::super::TaskLayers;
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

    /// Returns the row of a running task with these fields, which the holder of token 9 works on.
    fn running_row(id: &TaskId, fields: Value) -> TaskRow {
        let (mut row, _) = TaskRow::new(NewTask::new(id.clone()), 0, Timestamp::from_millis(0));
        let mut record = serde_json::to_value(&row.record).unwrap();
        record["status"] = "running".into();
        for (name, value) in fields.as_object().unwrap() {
            record[name] = value.clone();
        }
        row.record = serde_json::from_value(record).unwrap();
        row.fencing_token = 9;
        row
    }

    /// Returns the record of one run with a codon of this cost.
    fn record_of_a_run(dollars: f64) -> String {
        json!({"runs": [{
            "runId": "new", "runFolder": "/p/r", "gitBranch": "run-r", "serverPid": 1, "status": "running",
            "startingConditions": {"type": "fresh", "initialCheckpointSha": "s0"}, "startTime": "2025-01-04T12:00:00.000Z",
            "codons": [{"codonId": "a", "status": "failed", "startTime": "2025-01-04T12:00:00.000Z",
                "endTime": "2025-01-04T12:00:01.000Z", "failedDuring": "running", "exitCode": 1,
                "failureReason": {"type": "unknown", "retriable": false}, "partialCost": dollars,
                "partialTokens": {"inputTokens": 0, "outputTokens": 0, "cacheCreationTokens": 0, "cacheReadTokens": 0}}],
        }], "currentRunId": "new", "executionPlan": []})
        .to_string()
    }

    /// A start after an approval has the number of the attempt that asked, and that attempt's data until it notes its own.
    // covers: TASK-121
    #[test]
    fn an_attempt_that_has_noted_nothing_yet_costs_what_was_known_before() {
        let folder = tempfile::tempdir().unwrap();
        let layers = TaskLayers::new(World::real(), folder.path());
        let id = TaskId::new("blog").unwrap();
        let row = running_row(
            &id,
            json!({"agentId": "w1", "attempt": 1, "cost": 0.2, "lastAttemptCost": 0.2}),
        );
        let files = layers.task(id);
        let workspace = files.path().join(WORKSPACE).join(".hankweave");
        std::fs::create_dir_all(&workspace).unwrap();
        std::fs::write(workspace.join("state.json"), record_of_a_run(0.2)).unwrap();
        let cost_with = |noted_by: u64| {
            let data = json!({"attempt": 1, "cost": 0.2, "lastAttemptCost": 0.2, RECORDED_BEFORE: 0.0, RUNS_BEFORE: 0, ATTEMPT_TOKEN: noted_by});
            let state = json!({"taskId": "blog", "status": "running", "lastUpdated": "2025-01-04T12:00:00.000Z", "data": data, "fencingToken": 9});
            files.save_state(&serde_json::from_value(state).unwrap()).unwrap();
            (files.cost(&row).unwrap(), files.has_newest_attempt(&row))
        };
        let (cost, has_begun) = cost_with(8);
        assert!(!has_begun && cost.cost_is_lower_bound && cost.last_attempt_cost_is_lower_bound);
        assert_eq!(
            (cost.cost, cost.last_attempt_cost),
            (Usd::from_micros(200_000), Usd::ZERO)
        );
        let (cost, has_begun) = cost_with(9);
        assert!(has_begun);
        assert_eq!(cost.last_attempt_cost, Usd::from_micros(200_000));
    }

    /// The registry does not know the cost of an attempt that lost its worker. That cost is not part of the next attempt's.
    // covers: TASK-121
    #[test]
    fn an_attempt_costs_what_it_added_to_one_that_lost_its_worker() {
        let folder = tempfile::tempdir().unwrap();
        let layers = TaskLayers::new(World::real(), folder.path());
        let id = TaskId::new("blog").unwrap();
        let mut row = running_row(
            &id,
            json!({"agentId": "w2", "attempt": 2, "cost": 0, "lastAttemptCost": 0, "costIsLowerBound": true}),
        );
        let files = layers.task(id.clone());
        std::fs::create_dir(files.path()).unwrap();
        let data = json!({"attempt": 2, "cost": 0.3, "lastAttemptCost": 0.1, "costIsLowerBound": true});
        for (token, last) in [(7, 0), (9, 100_000)] {
            let state = json!({"taskId": id, "status": "running", "data": data, "lastUpdated": "2026-11-29T12:00:00Z", "fencingToken": token});
            files.save_state(&serde_json::from_value(state).unwrap()).unwrap();
            let cost = files.cost(&row).unwrap();
            assert_eq!(
                (cost.cost, cost.last_attempt_cost),
                (Usd::from_micros(300_000), Usd::from_micros(last))
            );
            // An amount that is written elsewhere, or not written yet, is unknown.
            assert!(cost.last_attempt_cost_is_lower_bound, "{cost:?}");
        }
        // After a start anew, the record lacks earlier attempts. The cost of a codon that still works counts as well.
        let workspace = files.path().join(WORKSPACE).join(".hankweave");
        std::fs::create_dir_all(&workspace).unwrap();
        std::fs::write(workspace.join("state.json"), record_of_a_run(0.05)).unwrap();
        row.record = {
            let mut record = serde_json::to_value(&row.record).unwrap();
            record["cost"] = json!(0.2);
            serde_json::from_value(record).unwrap()
        };
        // If the run existed before the attempt, its cost is not part of the attempt: the run of a suspended worker spent it.
        for (runs, last) in [(json!(0), 50_000), (json!(1), 0)] {
            let data = json!({"attempt": 2, "cost": 0.2, "lastAttemptCost": 0, RECORDED_BEFORE: 0.0, RUNS_BEFORE: runs});
            let state = json!({"taskId": id, "status": "running", "data": data, "lastUpdated": "2026-11-29T12:00:00Z", "fencingToken": 9});
            files.save_state(&serde_json::from_value(state).unwrap()).unwrap();
            let cost = files.cost(&row).unwrap();
            assert_eq!(
                (cost.cost, cost.last_attempt_cost),
                (Usd::from_micros(250_000), Usd::from_micros(last))
            );
        }
    }

    /// An attempt that lost its worker may have spent here what the machine that completed the task never knew.
    // covers: TASK-121
    #[test]
    fn what_was_lost_here_adds_to_what_was_paid_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let layers = TaskLayers::new(World::real(), folder.path());
        let id = TaskId::new("blog").unwrap();
        let (mut row, _) = TaskRow::new(NewTask::new(id.clone()), 0, Timestamp::from_millis(0));
        let files = layers.task(id.clone());
        let workspace = files.path().join(WORKSPACE).join(".hankweave");
        std::fs::create_dir_all(&workspace).unwrap();
        let tokens =
            json!({"inputTokens": 0, "outputTokens": 0, "cacheCreationTokens": 0, "cacheReadTokens": 0});
        let document = json!({"runs": [{
            "runId": "lost", "runFolder": "/p/r", "gitBranch": "run-r", "serverPid": 1, "status": "crashed",
            "startingConditions": {"type": "fresh", "initialCheckpointSha": "s0"}, "startTime": "2025-01-04T12:00:00.000Z",
            "endTime": "2025-01-04T12:00:01.000Z",
            "codons": [{"codonId": "a", "status": "failed", "startTime": "2025-01-04T12:00:00.000Z",
                "endTime": "2025-01-04T12:00:01.000Z", "failedDuring": "running", "exitCode": 1,
                "failureReason": {"type": "unknown", "retriable": false}, "partialCost": 1.7, "partialTokens": tokens}],
        }], "currentRunId": null, "executionPlan": []});
        std::fs::write(workspace.join("state.json"), document.to_string()).unwrap();
        let state = json!({"taskId": id, "status": "running", "data": {"attempt": 1}, "lastUpdated": "2026-11-29T12:00:00Z", "fencingToken": 7});
        files.save_state(&serde_json::from_value(state).unwrap()).unwrap();
        row.fencing_token = 9;
        let dollars = |dollars| Usd::from_dollars(dollars).unwrap();
        // The noted cost of these files' own attempt is known while the next attempt works elsewhere. That of a later attempt is not.
        for (attempt, expected) in [(2, 1.7), (3, 3.4)] {
            let mut record = serde_json::to_value(&row.record).unwrap();
            let at_work = json!({"status": "running", "agentId": "w2", "attempt": attempt,
                "filesLocation": {"machine": "other", "folder": "/tasks"}, "cost": 1.7, "lastAttemptCost": 1.7, "costIsLowerBound": true});
            record
                .as_object_mut()
                .unwrap()
                .extend(at_work.as_object().unwrap().clone());
            let row = TaskRow {
                record: serde_json::from_value(record).unwrap(),
                ..row.clone()
            };
            assert_eq!(files.cost(&row).unwrap().cost, dollars(expected), "{attempt}");
        }
        // Of the lost attempt, a push had taken $1.10 there, or nothing if the task started anew.
        for (all, last, expected) in [(2.5, 1.4, 3.1), (1.4, 1.4, 3.1), (3.2, 1.4, 3.2)] {
            let mut record = serde_json::to_value(&row.record).unwrap();
            let ended = json!({"status": "completed", "agentId": "w2", "attempt": 2, "result": {"success": true},
                "filesLocation": {"machine": "other", "folder": "/tasks"}, "cost": all, "lastAttemptCost": last, "costIsLowerBound": true});
            record
                .as_object_mut()
                .unwrap()
                .extend(ended.as_object().unwrap().clone());
            row.record = serde_json::from_value(record).unwrap();
            let cost = files.cost(&row).unwrap();
            assert_eq!(
                (cost.cost, cost.last_attempt_cost),
                (dollars(expected), dollars(last))
            );
        }
        // Started anew there, with $0.20 of the lost attempt known. The rest that is known here was paid earlier, and a budget does not count it.
        let mut record = serde_json::to_value(&row.record).unwrap();
        for (name, value) in [("cost", 1.6), ("beforeAnew", 0.2), ("budget", 1.0)] {
            record[name] = json!(value);
        }
        row.record = serde_json::from_value(record).unwrap();
        let cost = files.cost(&row).unwrap();
        assert_eq!((cost.cost, cost.before_anew), (dollars(3.1), Some(dollars(1.7))));
        let words = "at least $3.1000, since it started anew $1.4000 of $1.0000, over its budget by $0.4000; the last attempt $1.4000";
        assert_eq!(cost.in_words(), words);
        // While another attempt works there, that is the cost before it.
        let mut record = serde_json::to_value(&row.record).unwrap();
        record.as_object_mut().unwrap().remove("result");
        record["status"] = json!("running");
        record["attempt"] = json!(3);
        row.record = serde_json::from_value(record).unwrap();
        let cost = files.cost(&row).unwrap();
        assert_eq!(
            (cost.cost, cost.before_anew, cost.last_attempt_cost),
            (dollars(3.1), Some(dollars(1.7)), Usd::ZERO)
        );
        assert!(cost.cost_is_lower_bound);
    }
}
