//! Rules about several values at once, such as those between codons (HANK-10 to HANK-13, HANK-28, HANK-95). `parse` applies them after every single
//! value was read and checked.

mod budgets;
mod continuation;
mod fallback;
mod forks;
mod ids;
mod loops;
mod requires;
mod sentinels;

pub(super) use ids::ids;
pub use sentinels::repeated_sentinels;

use super::document::Hank;
use super::problem::Problem;

/// Checks the rules between items. They need the complete list of items: a missing one would cause false problems.
pub(super) fn neighbours(hank: &Hank) -> Vec<Problem> {
    let mut problems = continuation::check(hank);
    problems.extend(forks::check(hank));
    problems.extend(loops::check(hank));
    problems.extend(budgets::check(hank));
    problems
}

/// Checks the rules within each codon.
pub(super) fn each_codon(hank: &Hank) -> Vec<Problem> {
    let mut problems = fallback::check(hank);
    problems.extend(idle_limits(hank));
    problems.extend(endless_answers(hank));
    problems.extend(requires::check(hank));
    problems
}

/// Reports a `result` of a codon whose agent answers until its context is full.
fn endless_answers(hank: &Hank) -> impl Iterator<Item = Problem> {
    let endless = hank
        .located_codons()
        .filter(|(_, codon)| codon.result.is_some() && codon.exhaust_with_prompt.is_some());
    endless.map(|(path, _)| {
        let message =
            "cannot stand beside exhaustWithPrompt, with which the agent answers until its context is full";
        let hint = "leave one of them out, or write the result in a codon of its own";
        Problem::error(&hank.places, format!("{path}.result"), message).with_hint(hint)
    })
}

/// Warns of `maxExtensions` in a codon without extensions.
fn idle_limits(hank: &Hank) -> impl Iterator<Item = Problem> {
    let idle = hank
        .located_codons()
        .filter(|(_, codon)| codon.max_extensions.is_some() && codon.exhaust_with_prompt.is_none());
    idle.map(|(path, _)| {
        let message = "means nothing without exhaustWithPrompt";
        Problem::warning(&hank.places, format!("{path}.maxExtensions"), message)
    })
}
