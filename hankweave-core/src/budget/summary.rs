//! All budgets and what became of them, when a run ends.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::account::{ThreadLedger, took};
use super::ceiling::Ceiling;
use super::limits::{CodonLimits, resolve};
use crate::codon::{CodonExecution, CodonStatus, LoopContext};
use crate::cost::{TokenUsage, Usd};
use crate::document::{HankweaveState, PlanEntry};
use crate::hank::{Allocation, Hank, HankItem};
use crate::id::CodonId;

/// All budgets together.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// Total budget.
    pub ceiling: Ceiling,
    /// How codons and loops share the dollars.
    pub allocation: Allocation,
    /// One for each entry of the plan, in its order.
    pub rows: Vec<BudgetSummaryRow>,
    /// Spending, including runs that a rollback left.
    pub spent: Usd,
    /// Whether more was spent than is known.
    pub is_lower_bound: bool,
    /// How long the runs lasted.
    pub elapsed: Duration,
}

/// All tries of a codon in the thread: what it could use before the first of them, and what they used.
#[derive(Debug, Clone, PartialEq)]
pub struct BudgetSummaryRow {
    /// The codon.
    pub codon_id: CodonId,
    /// Its place in a loop.
    pub loop_context: Option<LoopContext>,
    /// Outcome.
    pub status: BudgetStatus,
    /// Limits of the entry.
    pub limits: CodonLimits,
    /// Spending, also of a skipped codon.
    pub spent: Usd,
    /// How long it took.
    pub took: Duration,
    /// Tokens that models wrote.
    pub output_tokens: u64,
}

/// Outcome of a codon's budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum BudgetStatus {
    /// It has not begun.
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

/// Sums up all budgets; `None` when there is no budget at all. The thread is the one that ends in the newest
/// run.
///
/// `lived` is how long that run has lasted, if it is not over, by a clock that cannot be set.
#[must_use]
pub fn summary(hank: &Hank, ceiling: Ceiling, state: &HankweaveState, lived: Duration) -> Option<Summary> {
    if ceiling == Ceiling::default() && !has_budget(hank) {
        return None;
    }
    let ledger = ThreadLedger::new(state, lived);
    let whole = ledger.now();
    let allocation = hank.budget().and_then(|budget| budget.allocation);
    let plan = state.execution_plan.iter();
    Some(Summary {
        ceiling,
        allocation: allocation.unwrap_or(Allocation::Shared),
        rows: plan.map(|entry| row(hank, ceiling, &ledger, entry)).collect(),
        spent: whole.spent,
        is_lower_bound: whole.is_lower_bound,
        elapsed: whole.elapsed,
    })
}

fn has_budget(hank: &Hank) -> bool {
    let mut loops = hank.items.iter().filter_map(HankItem::as_loop);
    loops.any(|found| found.budget.is_some()) || hank.codons().any(|codon| codon.budget.is_some())
}

fn row(hank: &Hank, ceiling: Ceiling, ledger: &ThreadLedger<'_>, entry: &PlanEntry) -> BudgetSummaryRow {
    let is_try = |codon: &CodonExecution| *codon.codon_id() == entry.codon_id;
    let thread = ledger.thread();
    let first = thread.iter().rposition(|walked| is_try(walked.codon));
    let account = first.map_or_else(|| ledger.now(), |first| ledger.before(first));
    let limits = resolve(hank, ceiling, &account, entry);
    let tries = || thread.iter().filter(|walked| is_try(walked.codon));
    let newest = tries().next().map(|walked| walked.codon.as_ref());
    let tokens: TokenUsage = tries().map(|walked| walked.codon.agent_tokens()).sum();
    BudgetSummaryRow {
        codon_id: entry.codon_id.clone(),
        loop_context: entry.loop_context.clone(),
        status: newest.map_or(BudgetStatus::Planned, status),
        limits,
        spent: tries().map(|walked| walked.codon.spend()).sum(),
        took: tries().map(took).sum(),
        output_tokens: tokens.output_tokens,
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
