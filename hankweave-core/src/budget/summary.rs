//! All budgets and their results at the end of a run.

use std::collections::HashMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::account::{ThreadLedger, time_at_work};
use super::ceiling::Ceiling;
use super::limits::{CodonLimits, HankBudgets};
use crate::codon::{CodonExecution, CodonStatus, LoopContext};
use crate::cost::Usd;
use crate::document::{HankweaveState, PlanEntry};
use crate::hank::{Allocation, Hank, HankItem};
use crate::id::CodonId;
use crate::thread::ThreadItem;

/// All budgets together.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Summary {
    /// Total budget.
    pub ceiling: Ceiling,
    /// How codons and loops share the dollars.
    pub allocation: Allocation,
    /// One row for each entry of the plan, in the plan's order.
    pub rows: Vec<BudgetSummaryRow>,
    /// Spending, including codons that a rollback undid.
    pub spent: Usd,
    /// Whether more was spent than is known.
    pub is_lower_bound: bool,
    /// Time in which codons were at work.
    pub elapsed: Duration,
    /// Whether `elapsed` lacks time that a crash left unknown.
    pub elapsed_is_lower_bound: bool,
}

/// All attempts at a codon in the thread: the limit before the first of them, and their usage.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct BudgetSummaryRow {
    /// The codon.
    pub codon_id: CodonId,
    /// The loop and iteration of the codon, if any.
    pub loop_context: Option<LoopContext>,
    /// Outcome.
    pub status: BudgetStatus,
    /// Limits at the first attempt, or now for an entry that has not started.
    pub limits: CodonLimits,
    /// Spending of all attempts, also of a skipped codon.
    pub spent: Usd,
    /// Time at work of all attempts.
    pub took: Duration,
    /// Tokens that models wrote.
    pub output_tokens: u64,
}

/// Result of a codon's budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum BudgetStatus {
    /// It has not started.
    Planned,
    /// It has not ended.
    Running,
    /// It completed within its limits.
    Completed,
    /// It reached a limit.
    Exceeded,
    /// It failed for another reason.
    Failed,
    /// A person skipped it.
    Skipped,
}

/// Sums up all budgets of the thread that ends in the newest run; `None` when there is no budget at all.
#[must_use]
pub fn summary(hank: &Hank, ceiling: Ceiling, state: &HankweaveState) -> Option<Summary> {
    if ceiling == Ceiling::default() && !has_budget(hank) {
        return None;
    }
    let (ledger, budgets) = (ThreadLedger::new(state), HankBudgets::of(hank, ceiling));
    let plan = &state.execution_plan;
    let entries: HashMap<&CodonId, &PlanEntry> = plan.iter().map(|entry| (&entry.codon_id, entry)).collect();
    // Rows of codons that have started; the others get limits as of now below.
    let mut rows: HashMap<&CodonId, BudgetSummaryRow> = HashMap::new();
    ledger.each_record(|record, before| {
        if let Some(entry) = entries.get(record.codon.codon_id()) {
            let planned = || BudgetSummaryRow::planned(entry, budgets.limits(before, entry));
            rows.entry(&entry.codon_id).or_insert_with(planned).add(record);
        }
    });
    let now = ledger.now();
    let mut row = |entry: &PlanEntry| {
        let planned = || BudgetSummaryRow::planned(entry, budgets.limits(&now, entry));
        rows.remove(&entry.codon_id).unwrap_or_else(planned)
    };
    let allocation = hank.budget().and_then(|budget| budget.allocation);
    Some(Summary {
        ceiling,
        allocation: allocation.unwrap_or(Allocation::Shared),
        rows: plan.iter().map(&mut row).collect(),
        spent: now.spent,
        is_lower_bound: now.is_lower_bound,
        elapsed: now.elapsed,
        elapsed_is_lower_bound: ledger.has_lost_time(),
    })
}

fn has_budget(hank: &Hank) -> bool {
    let mut loops = hank.items.iter().filter_map(HankItem::as_loop);
    loops.any(|found| found.budget.is_some()) || hank.codons().any(|codon| codon.budget.is_some())
}

impl BudgetSummaryRow {
    /// Returns the row of an entry that has not started.
    fn planned(entry: &PlanEntry, limits: CodonLimits) -> Self {
        Self {
            codon_id: entry.codon_id.clone(),
            loop_context: entry.loop_context.clone(),
            status: BudgetStatus::Planned,
            limits,
            spent: Usd::ZERO,
            took: Duration::ZERO,
            output_tokens: 0,
        }
    }

    /// Adds an attempt. Attempts are added oldest first, so the last one sets the status.
    fn add(&mut self, attempt: &ThreadItem<'_>) {
        let codon = attempt.codon.as_ref();
        self.status = status(codon);
        self.spent += codon.spend();
        self.took = self.took.saturating_add(time_at_work(attempt.codon));
        let written = codon.agent_tokens().output_tokens;
        self.output_tokens = self.output_tokens.saturating_add(written);
    }
}

fn status(codon: &CodonExecution) -> BudgetStatus {
    match codon.status() {
        _ if codon.budget_exceeded().is_some() => BudgetStatus::Exceeded,
        CodonStatus::Completed => BudgetStatus::Completed,
        CodonStatus::Failed => BudgetStatus::Failed,
        CodonStatus::Skipped => BudgetStatus::Skipped,
        _ => BudgetStatus::Running,
    }
}
