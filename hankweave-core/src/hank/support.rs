//! What a hank can say that a run cannot do yet.

use super::document::{CodonConfig, Hank, Overrides};
use super::problem::Problem;

/// A key, what it is for, and whether it is used.
type Feature<T> = (&'static str, &'static str, fn(&T) -> bool);

// Whoever builds a feature deletes its line.
const IN_OVERRIDES: &[Feature<Overrides>] =
    &[("sentinel", "sentinels", |overrides| overrides.sentinel.is_some())];
const IN_CODONS: &[Feature<CodonConfig>] = &[("sentinels", "sentinels", |codon| !codon.sentinels.is_empty())];

/// Every use of a feature that a run does not have yet, as an error with its place.
///
/// The hank is valid; only a run has to refuse it.
#[must_use]
pub fn unsupported(hank: &Hank) -> Vec<Problem> {
    let overrides = hank
        .overrides
        .iter()
        .flat_map(|overrides| used(IN_OVERRIDES, "overrides", overrides));
    let codons = hank
        .located_codons()
        .map(|(path, codon)| used(IN_CODONS, &path, codon));
    let features = overrides.chain(codons.flatten());
    features
        .map(|(path, purpose)| Problem::error(&hank.places, path, format!("not supported yet: {purpose}")))
        .collect()
}

/// The path and the purpose of each feature that `value` uses.
fn used<T>(features: &[Feature<T>], path: &str, value: &T) -> Vec<(String, &'static str)> {
    let used = features.iter().filter(|(_, _, is_used)| is_used(value));
    used.map(|(key, purpose, _)| (format!("{path}.{key}"), *purpose))
        .collect()
}
