//! All budgets and what became of them, when a run ends.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::account::{Ledger, took};
use super::ceiling::Ceiling;
use super::limits::{Limits, resolve};
use crate::codon::{CodonExecution, CodonStatus, LoopContext};
use crate::cost::{TokenUsage, Usd};
use crate::document::{HankweaveState, PlanEntry};
use crate::hank::{Allocation, Hank, HankItem};
use crate::id::CodonId;

/// All budgets together.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// What everything together may use.
    pub ceiling: Ceiling,
    /// How codons and loops share the dollars.
    pub allocation: Allocation,
    /// One for each entry of the plan, in its order.
    pub rows: Vec<Row>,
    /// What was spent, in runs that were left by going back as well.
    pub spent: Usd,
    /// More was spent, and nobody knows how much.
    pub is_lower_bound: bool,
    /// How long the runs went on.
    pub elapsed: Duration,
}

/// All tries of a codon in the thread: what it might use before the first of them, and what they used.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The codon.
    pub codon_id: CodonId,
    /// Where in a loop it stands.
    pub loop_context: Option<LoopContext>,
    /// What became of it.
    pub status: BudgetStatus,
    /// What it might use.
    pub limits: Limits,
    /// What it spent, also when it was skipped.
    pub spent: Usd,
    /// How long it took.
    pub took: Duration,
    /// Tokens that models wrote.
    pub output_tokens: u64,
}

/// What became of a codon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum BudgetStatus {
    /// It has not begun.
    Planned,
    /// It goes on.
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

/// Sums up all budgets; `None` when there is no budget at all. `lived` tells how long the newest run has lived, if it goes on, by a clock that
/// nobody sets. The thread is the one that ends in the newest run.
#[must_use]
pub fn summary(hank: &Hank, ceiling: Ceiling, state: &HankweaveState, lived: Duration) -> Option<Summary> {
    if ceiling == Ceiling::default() && !has_budget(hank) {
        return None;
    }
    let ledger = Ledger::new(state, lived);
    let whole = ledger.now();
    let budget = hank
        .overrides
        .as_ref()
        .and_then(|overrides| overrides.budget.as_ref());
    let rows = state
        .execution_plan
        .iter()
        .map(|entry| row(hank, ceiling, &ledger, entry));
    Some(Summary {
        ceiling,
        allocation: budget
            .and_then(|budget| budget.allocation)
            .unwrap_or(Allocation::Shared),
        rows: rows.collect(),
        spent: whole.spent,
        is_lower_bound: whole.is_lower_bound,
        elapsed: whole.elapsed,
    })
}

fn has_budget(hank: &Hank) -> bool {
    let in_loops = hank.items.iter().any(|item| match item {
        HankItem::Loop(found) => found.budget.is_some(),
        HankItem::Codon(_) => false,
    });
    in_loops || hank.codons().any(|codon| codon.budget.is_some())
}

fn row(hank: &Hank, ceiling: Ceiling, ledger: &Ledger<'_>, entry: &PlanEntry) -> Row {
    let is_try = |codon: &CodonExecution| *codon.codon_id() == entry.codon_id;
    let thread = ledger.thread();
    let first = thread.iter().rposition(|walked| is_try(walked.codon));
    let limits = match first {
        Some(first) => resolve(hank, ceiling, &ledger.before(first), entry),
        None => resolve(hank, ceiling, &ledger.now(), entry),
    };
    let tries = || thread.iter().filter(|walked| is_try(walked.codon));
    let newest = tries().next().map(|walked| walked.codon.as_ref());
    let tokens: TokenUsage = tries().map(|walked| walked.codon.agent_tokens()).sum();
    Row {
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
        CodonStatus::Preparing
        | CodonStatus::Starting
        | CodonStatus::Initializing
        | CodonStatus::Running
        | CodonStatus::CompletingSentinels => BudgetStatus::Running,
    }
}
