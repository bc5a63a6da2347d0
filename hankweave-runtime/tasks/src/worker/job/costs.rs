//! Cost of a task, with all its attempts (TASK-121).
//!
//! The registry knows what was noted. The record of the runs, which travels with the task, also knows what a worker used that was killed before it could note
//! it. An attempt has cost what its codons report, or what that record has more than at its beginning, whichever is more.

use hankweave_core::cost::Usd;
use hankweave_core::document::{HankweaveState, RunRecord};
use hankweave_remote::history;
use hankweave_runtime::ExecutionDir;
use hankweave_task_model::registry::TaskCost;

use super::Job;
use crate::layers::WORKSPACE;

/// Cost of runs, by their own record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Recorded {
    spend: Usd,
    is_lower_bound: bool,
}

impl Recorded {
    fn of(state: &HankweaveState) -> Self {
        // What an open codon has used is not known before it ends.
        let is_open = |run: &RunRecord| run.open_codon().is_some();
        Self {
            spend: state.total_spend(),
            is_lower_bound: state.cost_is_lower_bound() || state.runs.iter().any(|run| is_open(run)),
        }
    }
}

/// The costs of a task while one of its attempts is made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CostLedger {
    /// All attempts before this one.
    earlier: Usd,
    /// Cost in the record at the start of this attempt.
    recorded: Usd,
    attempt: Usd,
    is_lower_bound: bool,
}

impl CostLedger {
    /// An attempt that begins.
    pub(super) fn new(noted: Option<TaskCost>, recorded: Recorded) -> Self {
        let noted = noted.unwrap_or_default();
        Self {
            earlier: noted.cost.max(recorded.spend),
            recorded: recorded.spend,
            attempt: Usd::ZERO,
            is_lower_bound: noted.cost_is_lower_bound || recorded.is_lower_bound,
        }
    }

    /// Takes what the codons of this attempt report together.
    pub(super) fn report(&mut self, codons: Usd, is_lower_bound: bool) {
        self.attempt = self.attempt.max(codons);
        self.is_lower_bound |= is_lower_bound;
    }

    /// Takes what the record has at the end of the attempt.
    pub(super) fn settle(&mut self, recorded: Recorded) {
        self.report(
            recorded.spend.saturating_sub(self.recorded),
            recorded.is_lower_bound,
        );
    }

    /// Returns the sum.
    pub(super) fn cost(&self) -> TaskCost {
        TaskCost {
            cost: self.earlier + self.attempt,
            last_attempt_cost: self.attempt,
            cost_is_lower_bound: self.is_lower_bound,
        }
    }
}

impl Job {
    /// Begins to count an attempt.
    pub(super) async fn open_ledger(&mut self) {
        let recorded = self.recorded().await.unwrap_or_default();
        self.ledger = Some(CostLedger::new(TaskCost::of(&self.row.record), recorded));
    }

    /// Takes what the codons of the attempt have reported.
    pub(super) fn report_costs(&mut self) {
        if let Some(ledger) = &mut self.ledger {
            ledger.report(self.progress.cost(), self.progress.cost_is_lower_bound());
        }
    }

    /// Takes what the record of the runs says once the run has ended.
    pub(super) async fn settle_ledger(&mut self) {
        let recorded = self.recorded().await;
        let Some(ledger) = &mut self.ledger else {
            return;
        };
        if let Some(recorded) = recorded {
            ledger.settle(recorded);
        }
        let spent = ledger.cost().last_attempt_cost;
        self.worker.metrics().nano_dollars.add(spent.as_nanos());
    }

    /// Returns the cost of the task so far: that of the registry, where no attempt was started.
    pub(super) fn cost(&self) -> TaskCost {
        let noted = || TaskCost::of(&self.row.record).unwrap_or_default();
        self.ledger.as_ref().map_or_else(noted, CostLedger::cost)
    }

    /// Returns the contents of the runs' record; `None` where there is none that can be read.
    async fn recorded(&mut self) -> Option<Recorded> {
        let world = self.worker.world.clone();
        let dir = ExecutionDir::new(self.files.path().join(WORKSPACE));
        let look = move || history(&world, &dir).ok().map(|state| Recorded::of(&state));
        self.worker.world.blocking.run(look).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(micros: u64) -> Recorded {
        Recorded {
            spend: Usd::from_micros(micros),
            is_lower_bound: false,
        }
    }

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
        let mut first = CostLedger::new(None, Recorded::default());
        first.report(Usd::from_micros(900), false);
        check(first, 900, 900);
        let mut second = CostLedger::new(Some(first.cost()), recorded(900));
        check(second, 900, 0);
        second.settle(recorded(1_350));
        check(second, 1_350, 450);
        // A worker that was killed could note nothing of its attempt, which has cost 300.
        let mut third = CostLedger::new(Some(second.cost()), recorded(1_650));
        third.report(Usd::from_micros(10), true);
        check(third, 1_660, 10);
        assert!(third.cost().cost_is_lower_bound);
        // Files of an earlier time are there again: what was paid stays paid.
        let mut fourth = CostLedger::new(Some(third.cost()), recorded(900));
        fourth.settle(recorded(950));
        check(fourth, 1_710, 50);
    }
}
