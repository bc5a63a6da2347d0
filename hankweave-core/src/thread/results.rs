//! Results of codons that count: those of the newest attempts that completed (STATE-80).

#[cfg(feature = "hanks")]
use std::path::Path;

use super::tip::ThreadTip;
use crate::codon::CodonStatus;
#[cfg(feature = "hanks")]
use crate::document::HankweaveState;
use crate::hank::Results;
#[cfg(feature = "hanks")]
use crate::hank::{Hank, prompt::PromptValues};

/// Returns the values that the prompts and other texts of the next codons may contain, in the workspace `root`.
#[cfg(feature = "hanks")]
#[must_use]
pub fn prompt_values(root: &Path, hank: &Hank, state: &HankweaveState) -> PromptValues {
    let has_results = hank.codons().any(|codon| codon.result.is_some());
    PromptValues::new(root, has_results.then(|| ThreadTip::of(state).results()))
}

impl ThreadTip<'_> {
    /// Returns the results of all codons of the thread; in a loop that of the last iteration that has one.
    #[must_use]
    pub fn results(&self) -> Results {
        let mut results = Results::default();
        for entry in self.codons() {
            let counts = entry.codon.status() == CodonStatus::Completed;
            let result = || entry.codon.result().filter(|_| counts).cloned();
            results.add_older(entry.codon.codon_id(), result);
        }
        results
    }
}
