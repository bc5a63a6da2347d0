//! Combinations that do not work well inside loops (HANK-12, HANK-13).

use crate::hank::document::{CodonConfig, ContinuationMode, Hank, LoopConfig, OnFailure, TerminateOn};
use crate::hank::problem::{Problem, quoted};

/// Checks the codons of every loop.
pub(super) fn check(hank: &Hank) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (index, item) in hank.items.iter().enumerate() {
        let Some(found) = item.as_loop() else { continue };
        for (path, codon) in item.located_codons(index) {
            problems.extend(check_codon(hank, &path, found, codon));
        }
    }
    problems
}

fn check_codon(hank: &Hank, path: &str, found: &LoopConfig, codon: &CodonConfig) -> Vec<Problem> {
    let mut problems = Vec::new();
    let emptied = match &codon.continuation_mode {
        ContinuationMode::Fresh => Some("a fresh codon empties the context".to_owned()),
        ContinuationMode::Fork(id) => Some(format!(
            "a fork begins with the context of {}",
            quoted(id.as_str())
        )),
        ContinuationMode::ContinuePrevious => None,
    };
    if let Some(why) = emptied.filter(|_| found.terminate_on == TerminateOn::ContextExceeded) {
        let message = format!("{why}, so this contextExceeded loop would never end");
        let path = format!("{path}.continuationMode");
        problems.push(Problem::error(&hank.places, path, message).with_hint(r#"write "continue-previous""#));
    }
    // In a loop that runs until its check passes, "abort" is right: ignoring failures would bypass the check.
    let is_checked = matches!(found.terminate_on, TerminateOn::UntilCheckPasses { .. });
    if codon.failure_policy() == OnFailure::Abort && !is_checked {
        let message = "a failure in any iteration stops the whole run";
        let hint = r#"with "onFailure": "ignore" the loop continues"#;
        problems.push(Problem::warning(&hank.places, format!("{path}.onFailure"), message).with_hint(hint));
    }
    let is_last = found.codons.last().is_some_and(|last| last.id == codon.id);
    if codon.failure_policy() == OnFailure::Ignore && is_checked && is_last {
        let message = "the loop counts as done at its limit although its command never passed, because this failure is ignored";
        let hint = r#"leave "onFailure" out of the last codon of the loop"#;
        problems.push(Problem::warning(&hank.places, format!("{path}.onFailure"), message).with_hint(hint));
    }
    let items = codon.rig_setup.iter().enumerate();
    for (index, _) in items.filter(|(_, item)| !item.allow_failure) {
        let message = "runs in every iteration, and its failure fails the codon";
        let hint = r#"a command that can run twice is right; "allowFailure": true lets it fail, and ends this warning"#;
        let path = format!("{path}.rigSetup[{index}]");
        problems.push(Problem::warning(&hank.places, path, message).with_hint(hint));
    }
    problems
}
