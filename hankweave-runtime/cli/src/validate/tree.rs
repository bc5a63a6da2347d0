//! The hank as a tree for people: its codons and loops, each with its terms.

use std::fmt::{Result, Write};

use anstyle::Style;
use hankweave_core::hank::{Hank, HankItem};

use super::view::CodonView;
use super::{asks, budgets};
use crate::terminal::screen::SafeText;

/// Draws the hank; `codons` are its codons in the order in which they are written.
pub(super) fn write(text: &mut SafeText, hank: &Hank, codons: &[CodonView<'_>]) -> Result {
    match &hank.meta {
        Some(meta) => writeln!(text, "{} {}", meta.name, meta.version)?,
        None => writeln!(text, "hank")?,
    }
    if let Some(limits) = budgets::of_whole(hank) {
        writeln!(text, "│  {limits}")?;
    }
    let mut codons = codons.iter();
    for (index, item) in hank.items.iter().enumerate() {
        let last = index + 1 == hank.items.len();
        let count = item.codons().len();
        match item {
            HankItem::Codon(_) => branch(text, "", last, codons.by_ref().take(count))?,
            HankItem::Loop(found) => {
                writeln!(text, "{} {}  loop, {}", fork(last), found.id, asks::until(found))?;
                if let Some(limits) = found.budget.as_ref().and_then(budgets::of_container) {
                    writeln!(text, "{}│  {limits}", stem(last))?;
                }
                for line in asks::of_loop(found) {
                    writeln!(text, "{}│  {line}", stem(last))?;
                }
                branch(text, stem(last), true, codons.by_ref().take(count))?;
            }
        }
    }
    Ok(())
}

/// Writes codons below one branch; `last` means that nothing follows them in that branch.
fn branch<'v, 'a: 'v>(
    text: &mut SafeText,
    indent: &str,
    last: bool,
    codons: impl Iterator<Item = &'v CodonView<'a>>,
) -> Result {
    let mut codons = codons.peekable();
    while let Some(codon) = codons.next() {
        let last = last && codons.peek().is_none();
        write!(text, "{indent}{} ", fork(last))?;
        text.styled(Style::new().bold(), codon.codon_id)?;
        writeln!(text, "  {}", headline(codon))?;
        for line in details(codon) {
            writeln!(text, "{indent}{}   {line}", stem(last))?;
        }
    }
    Ok(())
}

const fn fork(last: bool) -> &'static str {
    if last { "└─" } else { "├─" }
}

const fn stem(last: bool) -> &'static str {
    if last { "   " } else { "│  " }
}

fn headline(codon: &CodonView<'_>) -> String {
    let model = codon
        .model
        .map(|model| format!(" with {model}"))
        .unwrap_or_default();
    let prompt = match codon.prompt_bytes {
        Some(bytes) => format!("prompt {bytes} B"),
        None => "prompt unreadable".to_owned(),
    };
    format!("{}{model}, {prompt}, {}", codon.agent, conversation(codon))
}

/// Returns whose conversation the codon's agent continues.
fn conversation(codon: &CodonView<'_>) -> String {
    let ids: Vec<&str> = codon.continues.iter().map(|id| id.as_str()).collect();
    match (codon.forks, ids.as_slice()) {
        (Some(forked), _) => format!("forks {forked}"),
        (None, []) => "fresh".to_owned(),
        (None, ids) => format!("continues {}", ids.join(", then ")),
    }
}

/// Returns the conversation of a codon and its details, without the question of its approval.
pub(super) fn terms(codon: &CodonView<'_>) -> Vec<String> {
    let session = match codon.forks.is_none() && codon.continues.is_empty() {
        true => "starts with a session of its own".to_owned(),
        false => conversation(codon),
    };
    let details = details(codon)
        .into_iter()
        .skip(usize::from(codon.approval.is_some()));
    [session].into_iter().chain(details).collect()
}

/// Returns a line for each detail of a codon; the question of its approval is the first, if it has one.
fn details(codon: &CodonView<'_>) -> Vec<String> {
    let approval = codon
        .approval
        .iter()
        .map(|question| format!("waits for an approval: {question}"));
    let steps = codon.steps.iter().map(ToString::to_string);
    let sentinels = codon
        .sentinels
        .iter()
        .map(|sentinel| format!("watched by {sentinel}"));
    let redirects = codon
        .redirects
        .iter()
        .map(|name| format!("sets {name}, which redirects programs or traffic"));
    let files = match codon.checkpointed_files {
        [] => None,
        patterns => Some(format!("checkpoints {}", patterns.join(", "))),
    };
    let limits = codon.budget.and_then(budgets::of_codon);
    approval
        .chain(steps)
        .chain(sentinels)
        .chain(files)
        .chain(codon.asks.iter().cloned())
        .chain(limits)
        .chain(redirects)
        .collect()
}
