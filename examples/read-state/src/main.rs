//! Reads a state document and reports what failed and why, where the last good checkpoint is, and what each codon cost.
//!
//! ```text
//! cargo run -p read-state -- .hankweave/state.json
//! ```
//!
//! It needs `hankweave-core` alone: the document is plain data, and everything that is asked of it is a pure function.

use std::error::Error;
use std::fmt::Write;
use std::process::ExitCode;

use hankweave_core::codon::CodonExecution;
use hankweave_core::cost::Usd;
use hankweave_core::document::{HankweaveState, parse};
use hankweave_core::id::{CheckpointSha, CodonId};
use hankweave_core::thread::{ExecutionThread, build, walk};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: read-state STATE.JSON")?;
    match parse(&std::fs::read(path)?) {
        Ok(state) => {
            print!("{}", report(&state));
            Ok(ExitCode::SUCCESS)
        }
        Err(problems) => {
            problems.iter().for_each(|problem| eprintln!("{problem}"));
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Returns the whole report on a document.
fn report(state: &HankweaveState) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write(&mut text, state);
    text
}

fn write(text: &mut String, state: &HankweaveState) -> std::fmt::Result {
    let thread = build(state, None, None);
    match failure(&thread) {
        Some((id, during, message)) => writeln!(text, "failed: {id}, while {during}: {message}")?,
        None => writeln!(text, "nothing failed")?,
    }
    match last_good_checkpoint(state) {
        Some((id, sha)) => writeln!(text, "last good checkpoint: {sha}, after {id}")?,
        None => writeln!(text, "no good checkpoint yet")?,
    }
    for (id, cost) in cost_by_codon(state) {
        writeln!(text, "{cost:>10}  {id}")?;
    }
    writeln!(text, "{:>10}  in all", state.total_spend())
}

/// Returns the codon that blocks the thread, the phase in which it failed, and the reason.
fn failure(thread: &ExecutionThread) -> Option<(&CodonId, &'static str, &str)> {
    let CodonExecution::Failed(failed) = thread.codons.first()?.codon.as_ref() else {
        return None;
    };
    let message = failed
        .failure_reason
        .message
        .as_deref()
        .unwrap_or("no reason was recorded");
    Some((&failed.codon_id, failed.failed_during.as_str(), message))
}

/// The newest completed codon of the thread; the walk goes no further back than it has to.
fn last_good_checkpoint(state: &HankweaveState) -> Option<(&CodonId, &CheckpointSha)> {
    walk(state, None).find_map(|step| match step.codon.as_ref() {
        CodonExecution::Completed(completed) if !completed.completion_checkpoint.is_blank() => {
            Some((&completed.codon_id, &completed.completion_checkpoint))
        }
        _ => None,
    })
}

/// Returns the cost of each codon in all runs and attempts, dearest first.
fn cost_by_codon(state: &HankweaveState) -> Vec<(&CodonId, Usd)> {
    let mut costs: Vec<(&CodonId, Usd)> = Vec::new();
    for codon in state.runs.iter().flat_map(|run| &run.codons) {
        match costs.iter_mut().find(|(id, _)| *id == codon.codon_id()) {
            Some((_, cost)) => *cost += codon.spend(),
            None => costs.push((codon.codon_id(), codon.spend())),
        }
    }
    costs.sort_by_key(|(id, cost)| (std::cmp::Reverse(*cost), *id));
    costs
}

#[cfg(test)]
mod tests {
    use hankweave_core::testing::{Ending, Story};

    use super::report;

    #[test]
    fn a_failure_is_told_with_the_checkpoint_before_it() {
        let story = Story::new()
            .fresh("r1")
            .codon("draft", Ending::Completed)
            .codon("review", Ending::Failed)
            .run_fails();
        assert_eq!(
            report(story.state()),
            "failed: review, while running: told so\n\
             last good checkpoint: draft-end, after draft\n\
             \x20  $0.0000  draft\n\
             \x20  $0.0000  review\n\
             \x20  $0.0000  in all\n"
        );
    }
}
