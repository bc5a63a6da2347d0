//! Documents with a long history, for measurements.

use super::{Ending, Story};
use crate::codon::CodonStatus;
use crate::document::render;
use crate::id::RunId;
use crate::state::LiveState;

const CODONS_IN_A_RUN: usize = 10;

/// Finished runs with `codons` codons in total, each run continuing the one before, and an open run in which `work` is running.
#[must_use]
pub fn long_history(codons: usize) -> LiveState {
    let runs = codons.div_ceil(CODONS_IN_A_RUN);
    let mut story = Story::new();
    for run in 0..runs {
        story = begin(story, run);
        for codon in 0..CODONS_IN_A_RUN.min(codons - run * CODONS_IN_A_RUN) {
            story = story.codon(&format!("c{codon}"), Ending::Completed);
        }
        story = story.run_completes();
    }
    let story = begin(story, runs).codon("work", Ending::Open(CodonStatus::Running));
    story.live().clone()
}

fn begin(story: Story, run: usize) -> Story {
    if run == 0 {
        return story.fresh("r0");
    }
    let last = format!("c{}", CODONS_IN_A_RUN - 1);
    story.continues(&format!("r{run}"), &format!("r{}", run - 1), Some(&last), "none")
}

/// A state.json of about `bytes` bytes, at least 1 MB, with equal runs under different names.
#[must_use]
pub fn large_document(bytes: usize) -> Vec<u8> {
    let mut state = long_history(1_000).into_document();
    let runs: Vec<_> = state.runs.iter().skip(1).cloned().collect();
    let one = render(&state).len();
    for copy in 1..bytes / one {
        for run in &runs {
            let mut run = (**run).clone();
            run.run_id = RunId::new(format!("{}-{copy}", run.run_id)).expect("the text is an id");
            state.runs.push_back(run.into());
        }
    }
    render(&state).into_bytes()
}
