//! Cost of a task, with all its attempts (TASK-121).
//!
//! There are two sources, and neither is complete. The registry has the costs that workers stored. The record of the runs, which is fetched with the
//! task, also has the cost of a worker that was killed before it stored its cost. For each attempt the larger cost counts. The cost of earlier runs can still
//! rise during an attempt: the run of a suspended worker ends in the workspace only after another worker has claimed the task.

use hankweave_core::cost::Usd;
use hankweave_task_model::LogLevel;
use hankweave_task_model::registry::{AnewRequest, TaskCost, TaskPatch, TaskRow};
use serde_json::json;

use super::Job;
use crate::layers::{LayerError, RecordedBefore, RecordedCost, SplitCost, TaskLog};
use crate::lifecycle::TaskStep;

/// Costs of a task during an attempt, in US dollars.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CostLedger {
    /// Cost of all earlier attempts.
    earlier: Usd,
    /// Part of `earlier` that the record of the runs has.
    recorded: Usd,
    /// Number of runs in the record before this attempt.
    earlier_runs: usize,
    /// Cost of this attempt.
    attempt: Usd,
    /// Whether `attempt` is a lower bound.
    attempt_is_lower_bound: bool,
    /// Whether the cost of all attempts is a lower bound.
    is_lower_bound: bool,
    /// Cost of all attempts before the task was started anew; `None` if it never was.
    before_anew: Option<Usd>,
}

impl CostLedger {
    /// Opens the ledger of an attempt that starts. `noted` is the cost in the registry, `recorded` that in the record of the runs. `is_anew`: a user has asked
    /// for a start without the files of earlier attempts.
    pub(super) fn new(noted: Option<TaskCost>, recorded: RecordedCost, is_anew: bool) -> Self {
        let noted = noted.unwrap_or_default();
        Self {
            earlier: noted.cost.max(recorded.spend),
            recorded: recorded.spend,
            earlier_runs: recorded.runs,
            attempt: Usd::ZERO,
            attempt_is_lower_bound: false,
            is_lower_bound: noted.cost_is_lower_bound || recorded.is_lower_bound,
            before_anew: is_anew.then_some(noted.cost).or(noted.before_anew),
        }
    }

    /// Adds a report of the cost of this attempt's codons so far. Reports may repeat or fall; the largest counts.
    pub(super) fn add_report(&mut self, codons: Usd, is_lower_bound: bool) {
        self.attempt = self.attempt.max(codons);
        self.attempt_is_lower_bound |= is_lower_bound;
        self.is_lower_bound |= is_lower_bound;
    }

    /// Adds the record of the runs at the end of the attempt, split at the attempt's start.
    pub(super) fn settle(&mut self, recorded: SplitCost) {
        let SplitCost { earlier, attempt } = recorded;
        self.earlier += earlier.spend.saturating_sub(self.recorded);
        self.recorded = self.recorded.max(earlier.spend);
        self.add_report(attempt.spend, attempt.is_lower_bound);
        self.is_lower_bound |= earlier.is_lower_bound;
    }

    /// Returns the cost of the task with this attempt.
    pub(super) fn cost(&self) -> TaskCost {
        TaskCost {
            cost: self.earlier + self.attempt,
            last_attempt_cost: self.attempt,
            last_attempt_cost_is_lower_bound: self.attempt_is_lower_bound,
            cost_is_lower_bound: self.is_lower_bound,
            budget: None,
            before_anew: self.before_anew,
        }
    }
}

impl Job {
    /// Opens the ledger of an attempt. If a user asked to start anew, the task log says so.
    pub(super) async fn open_ledger(&mut self, log: &mut TaskLog) -> Result<(), LayerError> {
        let recorded = self.recorded(0).await.unwrap_or_default().attempt;
        let noted = TaskCost::of(&self.row.record);
        // The request stays in the registry. If the workspace has runs, an earlier attempt has already started anew, and this attempt continues it.
        let anew = match recorded.runs == 0 && noted.is_some() {
            true => AnewRequest::of(&self.row.record),
            false => None,
        };
        self.ledger = Some(CostLedger::new(noted, recorded, anew.is_some()));
        let Some(AnewRequest { by, at }) = anew else {
            return Ok(());
        };
        // Stored now, not at the end: if this worker is lost, the next worker finds runs, and would not know that the task started anew.
        let before_anew = self.ledger.and_then(|ledger| ledger.before_anew);
        let patch = |_: &TaskRow| TaskPatch {
            before_anew,
            ..TaskPatch::default()
        };
        if let Err(error) = self.note_in_registry(patch).await {
            tracing::warn!(taskId = %self.row.id(), %error, "that the task starts anew is not noted yet");
        }
        let message =
            format!("Started anew, for which {by} asked at {at}: nothing of earlier attempts is here");
        log.append(&[self.files.entry(LogLevel::Warning, message, None)])
    }

    /// Adds the reported cost of the attempt's codons to the ledger.
    pub(super) fn report_costs(&mut self) {
        if let Some(ledger) = &mut self.ledger {
            ledger.add_report(self.progress.cost(), self.progress.cost_is_lower_bound());
        }
    }

    /// Adds the record of the runs to the ledger once the run has ended, and adds the attempt's cost to the metrics.
    pub(super) async fn settle_ledger(&mut self) {
        let earlier = self.ledger.map_or(0, |ledger| ledger.earlier_runs);
        let recorded = self.recorded(earlier).await;
        let Some(ledger) = &mut self.ledger else {
            return;
        };
        if let Some(recorded) = recorded {
            ledger.settle(recorded);
        }
        let spent = ledger.cost().last_attempt_cost;
        self.worker.metrics().nano_dollars.add(spent.as_nanos());
    }

    /// Returns cost and number of the runs that the record had before this attempt; `None` if the ledger is not open.
    pub(super) fn recorded_before(&self) -> Option<RecordedBefore> {
        let ledger = self.ledger.as_ref()?;
        Some(RecordedBefore {
            spend: ledger.recorded,
            runs: Some(ledger.earlier_runs),
        })
    }

    /// Returns the cost of the task so far; the cost in the registry if the ledger is not open.
    pub(super) fn cost(&self) -> TaskCost {
        let noted = || TaskCost::of(&self.row.record).unwrap_or_default();
        self.ledger_cost().unwrap_or_else(noted)
    }

    /// Returns the cost of the task to store in the registry with a step; `None` keeps the stored cost.
    pub(super) fn cost_at(&self, step: &TaskStep) -> Option<TaskCost> {
        let without_attempt = || TaskCost {
            last_attempt_cost: Usd::ZERO,
            last_attempt_cost_is_lower_bound: false,
            ..TaskCost::of(&self.row.record).unwrap_or_default()
        };
        match self.ledger_cost() {
            Some(cost) => Some(cost),
            None if matches!(step, TaskStep::Start(_)) => None,
            // The attempt ended before its run started. Its cost is 0; the registry still has the cost of the attempt before.
            None => Some(without_attempt()),
        }
    }

    /// Returns the cost of the task by the ledger, with the budget of this attempt; `None` if the ledger is not open.
    pub(super) fn ledger_cost(&self) -> Option<TaskCost> {
        let cost = self.ledger.as_ref()?.cost();
        let budget = self.progress.budget();
        Some(TaskCost { budget, ..cost })
    }

    /// Logs that the task has cost more than its budget. This can happen if an agent reports its tokens only at its end (TASK-121).
    pub(super) async fn note_over_budget(&mut self) -> Result<(), LayerError> {
        let Some(cost) = self.ledger_cost() else {
            return Ok(());
        };
        let Some(words) = cost.over_budget() else {
            return Ok(());
        };
        let line = self
            .files
            .entry(LogLevel::Warning, format!("Cost {words}"), Some(json!(cost)));
        self.files
            .run(move |files| files.append_log(std::slice::from_ref(&line)))
            .await
    }

    /// Returns the cost in the record of the runs, split after the oldest `earlier` runs; `None` if there is no readable record.
    async fn recorded(&mut self, earlier: usize) -> Option<SplitCost> {
        let files = self.files.clone();
        self.worker
            .world
            .blocking
            .run(move || files.split_cost(earlier))
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(micros: u64) -> RecordedCost {
        RecordedCost {
            spend: Usd::from_micros(micros),
            ..RecordedCost::default()
        }
    }

    fn split(earlier: u64, attempt: u64) -> SplitCost {
        SplitCost {
            earlier: recorded(earlier),
            attempt: recorded(attempt),
        }
    }

    /// Checks the cost of all attempts and of the last one, in millionths of a dollar.
    #[track_caller]
    fn check(ledger: CostLedger, all: u64, last: u64) {
        let cost = ledger.cost();
        assert_eq!(
            (cost.cost, cost.last_attempt_cost),
            (Usd::from_micros(all), Usd::from_micros(last))
        );
    }

    // covers: TASK-121
    #[test]
    fn attempts_add_up_by_the_registry_and_by_the_record_of_the_runs() {
        let mut first = CostLedger::new(None, RecordedCost::default(), false);
        first.add_report(Usd::from_micros(900), false);
        check(first, 900, 900);
        let mut second = CostLedger::new(Some(first.cost()), recorded(900), false);
        check(second, 900, 0);
        second.settle(split(900, 450));
        check(second, 1_350, 450);
        // The record has 300 more than the registry: a worker was killed before it noted its attempt.
        let mut third = CostLedger::new(Some(second.cost()), recorded(1_650), false);
        third.add_report(Usd::from_micros(10), true);
        check(third, 1_660, 10);
        assert!(third.cost().cost_is_lower_bound);
        // An older copy of the record, with 900, lowers no cost: the registry has the larger one.
        let mut fourth = CostLedger::new(Some(third.cost()), recorded(900), false);
        fourth.settle(split(900, 50));
        check(fourth, 1_710, 50);
    }

    // covers: TASK-121
    #[test]
    fn a_run_that_ends_after_the_next_attempt_has_begun_costs_its_own_attempt() {
        let open = RecordedCost {
            is_lower_bound: true,
            is_open: true,
            runs: 1,
            ..recorded(105)
        };
        let noted = TaskCost {
            cost: Usd::from_micros(105),
            last_attempt_cost: Usd::from_micros(105),
            last_attempt_cost_is_lower_bound: true,
            cost_is_lower_bound: true,
            budget: None,
            before_anew: None,
        };
        let mut second = CostLedger::new(Some(noted), open, false);
        second.settle(split(165, 270));
        check(second, 435, 270);
        assert!(!second.cost().last_attempt_cost_is_lower_bound);
        // Interrupted runs keep the cost of this attempt a lower bound, although the run before it was one already.
        let mut third = CostLedger::new(Some(noted), open, false);
        let mut cut_off = split(105, 60);
        (cut_off.earlier.is_lower_bound, cut_off.attempt.is_lower_bound) = (true, true);
        third.settle(cut_off);
        check(third, 165, 60);
        assert!(third.cost().last_attempt_cost_is_lower_bound);
    }
}
