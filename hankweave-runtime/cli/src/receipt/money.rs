//! Money of a report: spending by model. Spending that belongs to no known model has rows of its own.

use std::collections::BTreeMap;

use hankweave_core::codon::CodonStatus;
use hankweave_core::cost::{TokenUsage, Usd};
use hankweave_core::view::{AttemptState, AttemptView, ItemView, RunView};
use serde::Serialize;

use crate::status::StatusView;

/// Name of the row of sentinels' spending.
pub(super) const SENTINELS: &str = "sentinels";

/// Name of the row of spending before the run that started over at the first codon.
pub(super) const BEFORE: &str = "runs before the one that started over";

/// Name of the row of all other spending.
pub(super) const OTHERS: &str = "attempts that are not listed";

/// Spending of the runs in a directory.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MoneyReport {
    pub(super) spent: Usd,
    /// Part of the total that counts against the limit.
    pub(super) counted: Usd,
    /// Part of the total from before the run that started over.
    pub(super) before: Usd,
    /// Whether more was spent than is known.
    pub(super) at_least: bool,
    /// Whether more counts against the limit than is known.
    pub(super) counted_at_least: bool,
    /// Total budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) limit: Option<Usd>,
    /// Option of the command line that set the limit; `None` if the hank did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) limited_by: Option<String>,
    /// Spending by model, with the rows [`SENTINELS`], [`BEFORE`] and [`OTHERS`]; all rows add up to `spent`.
    pub(super) by_model: BTreeMap<String, ModelReport>,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ModelReport {
    pub(super) cost: Usd,
    pub(super) at_least: bool,
    pub(super) tokens: TokenUsage,
}

/// Sums up the spending. `view` has the attempts, `status` the totals of the record.
pub(super) fn money(status: &StatusView<'_>, view: &RunView) -> MoneyReport {
    let mut by_model: BTreeMap<String, ModelReport> = BTreeMap::new();
    let mut add = |name: &str, cost: Usd, at_least: bool, tokens: TokenUsage| {
        if cost > Usd::ZERO || at_least || tokens != TokenUsage::ZERO {
            by_model
                .entry(name.to_owned())
                .or_default()
                .add(cost, at_least, tokens);
        }
    };
    let crash = status.crash.as_ref();
    let in_set_up = crash.is_some_and(|crash| crash.codon_status == Some(CodonStatus::Preparing));
    let mut add_attempt = |attempt: &AttemptView, item: Option<&ItemView>| {
        let model = attempt
            .model
            .as_deref()
            .or(item.and_then(|item| item.model.as_deref()));
        // An agent that a crash interrupted may have been in the middle of an answer, which costs more than is known. During set-up no agent had started.
        let is_cut_off = attempt.state == AttemptState::Crashed && attempt.ended.is_none() && !in_set_up;
        let of_agent = (attempt.at_least && !attempt.sentinels_at_least) || is_cut_off;
        add(
            model.unwrap_or("unknown model"),
            attempt.cost,
            of_agent,
            attempt.tokens,
        );
        let of_sentinels = attempt.sentinels_at_least;
        add(SENTINELS, attempt.sentinels, of_sentinels, TokenUsage::ZERO);
    };
    for item in view.items.values() {
        let attempts = item.attempts.values();
        attempts.for_each(|attempt| add_attempt(attempt, Some(item)));
    }
    for undone in view.undone.newest.values() {
        add_attempt(&undone.attempt, view.items.get(&undone.item));
    }
    let earlier = view.items.values().filter_map(|item| item.earlier);
    for earlier in earlier.chain(view.undone.earlier) {
        add(OTHERS, earlier.cost, earlier.at_least, earlier.tokens);
    }
    let (known, newest) = (&status.drawn.money, status.state.runs.front());
    add(BEFORE, known.before, known.before_at_least, TokenUsage::ZERO);
    let spent = status.state.total_spend();
    // The view knows only the attempts of the current plan; the rest belongs to earlier plans.
    let listed = by_model.values().fold(Usd::ZERO, |sum, model| sum + model.cost);
    let rest = spent.saturating_sub(listed);
    if rest > Usd::ZERO {
        let sum = by_model.entry(OTHERS.to_owned()).or_default();
        sum.add(rest, status.records_at_least(), TokenUsage::ZERO);
    }
    MoneyReport {
        spent,
        counted: known.counted(),
        before: known.before,
        at_least: status.costs_at_least(),
        counted_at_least: known.at_least
            // If a run has started over, the unknown cost of a task is from before it and does not count.
            || (status.task_costs_at_least() && known.before == Usd::ZERO)
            || newest.is_some_and(|run| run.spends_at_least()),
        limit: known.limit,
        limited_by: status
            .hints
            .option("max-cost")
            .map(|given| format!("--max-cost {given}")),
        by_model,
    }
}

impl ModelReport {
    fn add(&mut self, cost: Usd, at_least: bool, tokens: TokenUsage) {
        self.cost += cost;
        self.at_least |= at_least;
        self.tokens += tokens;
    }
}
