//! Budgets that contradict themselves or one another (HANK-28, HANK-29).

use crate::cost::Usd;
use crate::hank::budget::{Allocation, ContainerBudget, OnExceeded};
use crate::hank::document::{CodonConfig, Hank, HankItem, OnFailure};
use crate::hank::problem::{Problem, SourceMap, quoted};

/// Allowed error of a sum of shares: decimal fractions are not exact in binary.
const TOLERANCE: f64 = 1e-9;

/// Checks the budgets of the hank, of its loops and of its codons.
pub(super) fn check(hank: &Hank) -> Vec<Problem> {
    let mut problems = Vec::new();
    if let Some(budget) = hank.budget() {
        let children: Vec<BudgetedChild<'_>> = hank.items.iter().map(BudgetedChild::of_item).collect();
        problems.extend(container(&hank.places, "overrides.budget", budget, &children));
    }
    for (index, item) in hank.items.iter().enumerate() {
        if let Some(budget) = item.as_loop().and_then(|found| found.budget.as_ref()) {
            let children: Vec<BudgetedChild<'_>> =
                item.codons().iter().map(BudgetedChild::of_codon).collect();
            let path = format!("hank[{index}].budget");
            problems.extend(container(&hank.places, &path, budget, &children));
        }
        for (path, codon) in item.located_codons(index) {
            let place = format!("{path}.budget");
            let warning = |doubt| Problem::warning(&hank.places, place.as_str(), doubt);
            problems.extend(codon_doubts(codon).map(warning));
        }
    }
    problems
}

/// A codon or loop in a container, which is a loop or the whole hank.
struct BudgetedChild<'h> {
    id: &'h str,
    max_dollars: Option<Usd>,
    max_time_seconds: Option<f64>,
    fails_when_exceeded: bool,
}

impl<'h> BudgetedChild<'h> {
    fn of_codon(codon: &'h CodonConfig) -> Self {
        let budget = codon.budget.unwrap_or_default();
        Self {
            id: codon.id.as_str(),
            max_dollars: budget.max_dollars,
            max_time_seconds: budget.max_time_seconds,
            fails_when_exceeded: budget.on_exceeded == Some(OnExceeded::Fail),
        }
    }

    fn of_item(item: &'h HankItem) -> Self {
        match item {
            HankItem::Codon(codon) => Self::of_codon(codon),
            HankItem::Loop(found) => {
                let budget = found.budget.clone().unwrap_or_default();
                Self {
                    id: found.id.as_str(),
                    max_dollars: budget.max_dollars,
                    max_time_seconds: budget.max_time_seconds,
                    fails_when_exceeded: budget.on_exceeded == Some(OnExceeded::Fail),
                }
            }
        }
    }
}

/// Returns the errors of a container's budget; warnings only if it has no errors.
fn container(
    places: &SourceMap,
    path: &str,
    budget: &ContainerBudget,
    children: &[BudgetedChild<'_>],
) -> Vec<Problem> {
    let mut problems = Vec::new();
    share_errors(budget, children, |key, message| {
        problems.push(Problem::error(places, format!("{path}{key}"), message));
    });
    if problems.is_empty() {
        container_doubts(budget, children, |key, message| {
            problems.push(Problem::warning(places, format!("{path}{key}"), message));
        });
    }
    problems
}

fn is_proportional(budget: &ContainerBudget) -> bool {
    match budget.allocation {
        None | Some(Allocation::Shared) => false,
        Some(Allocation::Proportional | Allocation::ProportionalStrict) => true,
    }
}

fn share_errors(
    budget: &ContainerBudget,
    children: &[BudgetedChild<'_>],
    mut report: impl FnMut(&str, String),
) {
    if !budget.shares.is_empty() && !is_proportional(budget) {
        report(".shares", "needs a proportional allocation".to_owned());
    }
    if is_proportional(budget) && budget.max_dollars.is_none() {
        let message = "needs maxDollars: there is nothing to share";
        report(".allocation", message.to_owned());
    }
    let sum: f64 = budget.shares.values().sum();
    if sum > 1.0 + TOLERANCE {
        report(".shares", format!("add up to {sum:.3}, more than 1"));
    }
    let ids: Vec<&str> = children.iter().map(|child| child.id).collect();
    for id in budget.shares.keys().filter(|id| !ids.contains(&id.as_str())) {
        let valid = ids.iter().take(10).copied().collect::<Vec<_>>().join(", ");
        let message = format!("{} is no direct child; there are {valid}", quoted(id));
        report(".shares", message);
    }
}

fn container_doubts(
    budget: &ContainerBudget,
    children: &[BudgetedChild<'_>],
    mut report: impl FnMut(&str, String),
) {
    let total = budget.max_dollars.filter(|_| is_proportional(budget));
    let sum: f64 = budget.shares.values().sum();
    let has_no_share = |child: &&BudgetedChild<'_>| !budget.shares.contains_key(child.id);
    match (total, children.iter().find(has_no_share)) {
        (Some(_), None) if sum < 1.0 - TOLERANCE => {
            report(".shares", format!("add up to {sum:.3}; nobody can use the rest"));
        }
        (Some(_), Some(child)) if sum > 1.0 - TOLERANCE => {
            let message = format!("add up to 1, so {} starts with nothing", quoted(child.id));
            report(".shares", message);
        }
        _ => {}
    }
    for (index, child) in children.iter().enumerate() {
        let id = quoted(child.id);
        let share = total.zip(budget.shares.get(child.id));
        let allocation = share.map(|(total, share)| total.as_dollars() * share);
        if let (Some(own), Some(allocation)) = (child.max_dollars, allocation)
            && own.as_dollars() > allocation + TOLERANCE
        {
            report(".shares", format!("{id} may use less than its own maxDollars"));
        }
        if let (Some(own), Some(all)) = (child.max_time_seconds, budget.max_time_seconds)
            && own > all
        {
            let message = format!("{id} has more time than everything together");
            report(".maxTimeSeconds", message);
        }
        if child.fails_when_exceeded && index > 0 && budget.max_dollars.is_some() && !is_proportional(budget)
        {
            let message = format!("{id} may fail because codons before it used the shared money");
            report("", message);
        }
    }
}

fn codon_doubts(codon: &CodonConfig) -> impl Iterator<Item = &'static str> {
    let budget = codon.budget.unwrap_or_default();
    let mut doubts = Vec::new();
    if budget.max_time_seconds.is_some() && codon.exhaust_with_prompt.is_some() {
        doubts.push("maxTimeSeconds also counts the extensions of exhaustWithPrompt");
    }
    if budget.on_exceeded == Some(OnExceeded::Fail) && codon.failure_policy() == OnFailure::Retry {
        doubts.push("a codon that fails by its budget is not tried again");
    }
    doubts.into_iter()
}
