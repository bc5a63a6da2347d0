//! Results of codons that count: those of the newest attempts that completed (STATE-80).

use super::tip::ThreadTip;
use crate::hank::Results;

impl ThreadTip<'_> {
    /// Returns the results of all codons of the thread; in a loop that of the last iteration that has one.
    #[must_use]
    pub fn results(&self) -> Results {
        let mut results = Results::default();
        for entry in self.codons() {
            results.add_older(entry.codon.codon_id(), || entry.codon.result().cloned());
        }
        results
    }
}
