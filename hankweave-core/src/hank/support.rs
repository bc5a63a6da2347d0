//! What a hank can say that a run cannot do yet.

use super::document::Hank;
use super::problem::Problem;

/// Every use of a feature that a run does not have yet, as an error with its place: sentinels.
///
/// The hank is valid; only a run has to refuse it.
#[must_use]
pub fn unsupported(hank: &Hank) -> Vec<Problem> {
    let overrides = hank.overrides.iter();
    let overrides = overrides.filter(|overrides| overrides.sentinel.is_some());
    let codons = hank.located_codons();
    let codons = codons.filter(|(_, codon)| !codon.sentinels.is_empty());
    let paths = overrides.map(|_| "overrides.sentinel".to_owned());
    paths
        .chain(codons.map(|(path, _)| format!("{path}.sentinels")))
        .map(|path| Problem::error(&hank.places, path, "not supported yet: sentinels"))
        .collect()
}
