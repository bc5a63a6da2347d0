//! Allowed content of hank.json, and the messages for anything else.

mod bad;
mod graph;
mod hostile;
mod older;
mod plan;
mod round_trip;
mod sentinels;

use hankweave_core::hank::{Problem, parse};

/// A codon with the required fields and then `more`, such as `"env": {}`.
fn codon(id: &str, more: &str) -> String {
    let comma = if more.is_empty() { "" } else { ", " };
    format!(r#"{{"id": "{id}", "name": "{id}", "model": "sonnet", "promptText": "x"{comma}{more}}}"#)
}

fn fresh(id: &str, more: &str) -> String {
    let comma = if more.is_empty() { "" } else { ", " };
    codon(id, &format!(r#""continuationMode": "fresh"{comma}{more}"#))
}

fn continuing(id: &str, more: &str) -> String {
    let comma = if more.is_empty() { "" } else { ", " };
    codon(
        id,
        &format!(r#""continuationMode": "continue-previous"{comma}{more}"#),
    )
}

fn loop_of(terminate_on: &str, codons: &[String]) -> String {
    let codons = codons.join(", ");
    format!(
        r#"{{"type": "loop", "id": "l", "name": "L", "terminateOn": {terminate_on}, "codons": [{codons}]}}"#
    )
}

fn hank(items: &[String]) -> String {
    format!("{{\"hank\": [{}]}}", items.join(", "))
}

/// All problems of a text, without hints.
fn problems(text: &str) -> Vec<String> {
    let shown = |problem: &Problem| problem.to_string().lines().next().unwrap_or_default().to_owned();
    parse(text).problems.iter().map(shown).collect()
}

const TWICE: &str = r#"{"type": "iterationLimit", "limit": 2}"#;
const UNTIL_FULL: &str = r#"{"type": "contextExceeded"}"#;
