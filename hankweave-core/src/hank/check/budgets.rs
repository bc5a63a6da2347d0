//! Budgets that contradict themselves or one another (HANK-28, HANK-29).

use crate::hank::budget::{Allocation, CodonBudget, ContainerBudget, OnExceeded};
use crate::hank::document::{CodonConfig, Hank, HankItem, OnFailure};
use crate::hank::problem::{Places, Problem, quoted};

/// Shares are decimal fractions, and their sum in binary is off by a little.
const TOLERANCE: f64 = 1e-9;

/// Checks the budgets of the hank, of its loops and of its codons.
pub(super) fn check(hank: &Hank) -> Vec<Problem> {
    let mut problems = Vec::new();
    let whole = hank
        .overrides
        .as_ref()
        .and_then(|overrides| overrides.budget.as_ref());
    if let Some(budget) = whole {
        let children: Vec<Child<'_>> = hank.items.iter().map(Child::of_item).collect();
        problems.extend(container(&hank.places, "overrides.budget", budget, &children));
    }
    for (index, item) in hank.items.iter().enumerate() {
        let around = match item {
            HankItem::Loop(found) => found.budget.as_ref(),
            HankItem::Codon(_) => None,
        };
        if let Some(budget) = around {
            let children: Vec<Child<'_>> = item.codons().iter().map(Child::of_codon).collect();
            let path = format!("hank[{index}].budget");
            problems.extend(container(&hank.places, &path, budget, &children));
        }
        for (path, codon) in item.located_codons(index) {
            problems.extend(
                codon_doubts(codon)
                    .map(|doubt| Problem::warning(&hank.places, format!("{path}.budget"), doubt)),
            );
        }
    }
    problems
}

/// A codon or loop, as its container sees it.
struct Child<'h> {
    id: &'h str,
    max_dollars: Option<f64>,
    max_time_seconds: Option<f64>,
    fails_when_exceeded: bool,
}

impl<'h> Child<'h> {
    fn of_codon(codon: &'h CodonConfig) -> Self {
        let budget = codon.budget.unwrap_or_default();
        Self {
            id: codon.id.as_str(),
            max_dollars: budget.max_dollars.map(|dollars| dollars.as_dollars()),
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
                    max_dollars: budget.max_dollars.map(|dollars| dollars.as_dollars()),
                    max_time_seconds: budget.max_time_seconds,
                    fails_when_exceeded: budget.on_exceeded == Some(OnExceeded::Fail),
                }
            }
        }
    }
}

fn container(places: &Places, path: &str, budget: &ContainerBudget, children: &[Child<'_>]) -> Vec<Problem> {
    let errors = share_errors(path, budget, children);
    let doubts = if errors.is_empty() {
        container_doubts(path, budget, children)
    } else {
        Vec::new()
    };
    let errors = errors
        .into_iter()
        .map(|(path, message)| Problem::error(places, path, message));
    errors
        .chain(
            doubts
                .into_iter()
                .map(|(path, message)| Problem::warning(places, path, message)),
        )
        .collect()
}

fn is_proportional(budget: &ContainerBudget) -> bool {
    match budget.allocation {
        None | Some(Allocation::Shared) => false,
        Some(Allocation::Proportional | Allocation::ProportionalStrict) => true,
    }
}

fn share_errors(path: &str, budget: &ContainerBudget, children: &[Child<'_>]) -> Vec<(String, String)> {
    let mut errors = Vec::new();
    if !budget.shares.is_empty() && !is_proportional(budget) {
        errors.push((
            format!("{path}.shares"),
            "needs a proportional allocation".to_owned(),
        ));
    }
    if is_proportional(budget) && budget.max_dollars.is_none() {
        errors.push((
            format!("{path}.allocation"),
            "needs maxDollars: there is nothing to share".to_owned(),
        ));
    }
    let sum: f64 = budget.shares.values().sum();
    if sum > 1.0 + TOLERANCE {
        errors.push((
            format!("{path}.shares"),
            format!("add up to {sum:.3}, more than 1"),
        ));
    }
    let ids: Vec<&str> = children.iter().map(|child| child.id).collect();
    for id in budget.shares.keys().filter(|id| !ids.contains(&id.as_str())) {
        let valid = ids.iter().take(10).copied().collect::<Vec<_>>().join(", ");
        errors.push((
            format!("{path}.shares"),
            format!("{} is no direct child; there are {valid}", quoted(id)),
        ));
    }
    errors
}

fn container_doubts(path: &str, budget: &ContainerBudget, children: &[Child<'_>]) -> Vec<(String, String)> {
    let mut doubts = Vec::new();
    let total = budget
        .max_dollars
        .map(|dollars| dollars.as_dollars())
        .filter(|_| is_proportional(budget));
    let sum: f64 = budget.shares.values().sum();
    let unshared = children
        .iter()
        .find(|child| !budget.shares.contains_key(child.id));
    match (total, unshared) {
        (Some(_), None) if sum < 1.0 - TOLERANCE => {
            doubts.push((
                format!("{path}.shares"),
                format!("add up to {sum:.3}; nobody can use the rest"),
            ));
        }
        (Some(_), Some(child)) if sum > 1.0 - TOLERANCE => {
            doubts.push((
                format!("{path}.shares"),
                format!("add up to 1, so {} starts with nothing", quoted(child.id)),
            ));
        }
        _ => {}
    }
    for (index, child) in children.iter().enumerate() {
        let allocation = total
            .zip(budget.shares.get(child.id))
            .map(|(total, share)| total * share);
        if let (Some(own), Some(allocation)) = (child.max_dollars, allocation)
            && own > allocation + TOLERANCE
        {
            doubts.push((
                format!("{path}.shares"),
                format!("{} may use less than its own maxDollars", quoted(child.id)),
            ));
        }
        if let (Some(own), Some(all)) = (child.max_time_seconds, budget.max_time_seconds)
            && own > all
        {
            let message = format!("{} has more time than everything together", quoted(child.id));
            doubts.push((format!("{path}.maxTimeSeconds"), message));
        }
        if child.fails_when_exceeded && index > 0 && budget.max_dollars.is_some() && !is_proportional(budget)
        {
            let message = format!(
                "{} may fail because codons before it used the shared money",
                quoted(child.id)
            );
            doubts.push((path.to_owned(), message));
        }
    }
    doubts
}

fn codon_doubts(codon: &CodonConfig) -> impl Iterator<Item = &'static str> {
    let CodonBudget {
        max_time_seconds,
        on_exceeded,
        ..
    } = codon.budget.unwrap_or_default();
    let time = max_time_seconds.is_some() && codon.exhaust_with_prompt.is_some();
    let retry = on_exceeded == Some(OnExceeded::Fail) && codon.failure_policy() == OnFailure::Retry;
    [
        (
            time,
            "maxTimeSeconds also counts the extensions of exhaustWithPrompt",
        ),
        (retry, "a codon that fails by its budget is not tried again"),
    ]
    .into_iter()
    .filter_map(|(applies, doubt)| applies.then_some(doubt))
}
