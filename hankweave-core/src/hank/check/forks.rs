//! Checks which conversation a codon may fork, that is, continue as a copy (HANK-95).

use super::continuation::{PrecedingCodon, doubt, obstacle};
use crate::hank::document::{CodonConfig, ContinuationMode, Hank, LoopConfig};
use crate::hank::keys::did_you_mean;
use crate::hank::problem::{Problem, quoted};
use crate::id::CodonId;

/// A codon, and the loop that contains it.
type Placed<'h> = (&'h CodonConfig, Option<&'h LoopConfig>);

/// Checks every codon that forks the conversation of an earlier one.
pub(super) fn check(hank: &Hank) -> Vec<Problem> {
    let items = hank.items.iter();
    let placed = items.flat_map(|item| item.codons().iter().map(|codon| (codon, item.as_loop())));
    let placed: Vec<Placed<'_>> = placed.collect();
    let located = hank.located_codons().enumerate();
    let forks = located.filter_map(|(position, (path, codon))| match &codon.continuation_mode {
        ContinuationMode::Fork(forked) => fork(hank, &path, &placed, position, forked),
        ContinuationMode::Fresh | ContinuationMode::ContinuePrevious => None,
    });
    forks.collect()
}

/// Returns the problem, if any, of the codon at `position` in `placed`, which lists all codons: it forks the conversation of the codon `forked`.
fn fork(
    hank: &Hank,
    path: &str,
    placed: &[Placed<'_>],
    position: usize,
    forked: &CodonId,
) -> Option<Problem> {
    let path = format!("{path}.continuationMode.fork");
    let name = quoted(forked.as_str());
    let (codon, own_loop) = placed[position];
    let refuse = |why: String, hint: String| {
        Some(Problem::error(&hank.places, path.clone(), format!("cannot fork {name}: {why}")).with_hint(hint))
    };
    let earlier: Vec<&str> = placed[..position]
        .iter()
        .map(|(codon, _)| codon.id.as_str())
        .collect();
    let Some(source) = placed.iter().position(|(codon, _)| codon.id == *forked) else {
        let is_loop = hank.items.iter().any(|item| {
            item.as_loop()
                .is_some_and(|found| found.id.as_str() == forked.as_str())
        });
        let why = match is_loop {
            true => "it is a loop",
            false => "no codon is called so",
        };
        let near = did_you_mean(forked.as_str(), &earlier);
        return refuse(why.to_owned(), near.unwrap_or_else(|| ids_to_write(&earlier)));
    };
    if source >= position {
        return refuse(
            "it does not come before this codon".to_owned(),
            ids_to_write(&earlier),
        );
    }
    let (before, ended_loop) = placed[source];
    let ended_loop = ended_loop.filter(|ended| own_loop.is_none_or(|own| own.id != ended.id));
    let before = PrecedingCodon {
        codon: before,
        ended_loop,
    };
    if let Some(reason) = obstacle(hank, codon, before) {
        let message = format!("cannot fork {reason}");
        let hint = r#"write "fresh", or make the two codons fit"#;
        return Some(Problem::error(&hank.places, path, message).with_hint(hint));
    }
    // If the next codon continues the source's conversation, a copy would have the work of both.
    let (next, _) = placed[source + 1];
    if next.continuation_mode == ContinuationMode::ContinuePrevious {
        let next = quoted(next.id.as_str());
        return refuse(
            format!("{next} continues its conversation, which has the work of both then"),
            format!("fork {next}, or let {next} fork {name} as well"),
        );
    }
    doubt(hank, codon, before).map(|doubt| Problem::warning(&hank.places, path, doubt))
}

/// Hint about what to write instead, with the ids of the codons that come before.
fn ids_to_write(earlier: &[&str]) -> String {
    match earlier {
        [] => r#"write "fresh": no codon comes before"#.to_owned(),
        earlier => format!(
            r#"write the id of a codon before it ({}), or "fresh""#,
            earlier.join(", ")
        ),
    }
}
