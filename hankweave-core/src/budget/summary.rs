//! All budgets and what became of them, when a run ends.

use std::time::Duration;

use super::account::{Ledger, took};
use super::ceiling::Ceiling;
use super::limits::{Limits, resolve};
use crate::codon::{CodonExecution, CodonStatus};
use crate::cost::TokenUsage;
use crate::document::{HankweaveState, PlanEntry};
use crate::hank::{Allocation, Hank, HankItem};
use crate::wire::{ActualUse, BudgetCeiling, BudgetLimits, BudgetRow, BudgetStatus, BudgetTotals, Event};

/// The event that sums up all budgets; `None` when there is no budget at all. `lived` tells how long the newest run has lived, if it goes on, by a clock
/// that nobody sets.
///
/// A row is about all tries of a codon in the thread that ends in the newest run: what it might use before the first of them, and what they
/// used. The totals also hold what was used in runs that were left by going back.
#[must_use]
pub fn summary(hank: &Hank, ceiling: Ceiling, state: &HankweaveState, lived: Duration) -> Option<Event> {
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
    Some(Event::BudgetSummary {
        ceiling: BudgetCeiling {
            max_dollars: ceiling.max_dollars,
            max_time_seconds: ceiling.max_time.map(|time| time.as_secs_f64()),
        },
        allocation: budget
            .and_then(|budget| budget.allocation)
            .unwrap_or(Allocation::Shared),
        rows: rows.collect(),
        totals: BudgetTotals {
            budget_dollars: ceiling.max_dollars,
            actual_dollars: whole.spent,
            actual_is_lower_bound: whole.is_lower_bound.then_some(true),
            actual_time_seconds: whole.elapsed.as_secs_f64(),
        },
    })
}

fn has_budget(hank: &Hank) -> bool {
    let in_loops = hank.items.iter().any(|item| match item {
        HankItem::Loop(found) => found.budget.is_some(),
        HankItem::Codon(_) => false,
    });
    in_loops || hank.codons().any(|codon| codon.budget.is_some())
}

fn row(hank: &Hank, ceiling: Ceiling, ledger: &Ledger<'_>, entry: &PlanEntry) -> BudgetRow {
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
    let time: Duration = tries().map(took).sum();
    BudgetRow {
        codon_id: entry.codon_id.clone(),
        loop_context: entry.loop_context.clone(),
        status: newest.map_or(BudgetStatus::Planned, status),
        budget: told(limits),
        actual: ActualUse {
            dollars: tries().map(|walked| walked.codon.spend()).sum(),
            time_seconds: time.as_secs_f64(),
            output_tokens: tokens.output_tokens,
        },
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

fn told(limits: Limits) -> BudgetLimits {
    BudgetLimits {
        max_dollars: limits.dollars,
        max_time_seconds: limits.time.map(|time| time.as_secs_f64()),
        max_output_tokens: limits.output_tokens,
        max_context_tokens: limits.context_tokens,
    }
}
