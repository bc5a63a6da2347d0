//! Checks that the sentinels of a codon have different ids, once the files of sentinels were read.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::hank::document::{Hank, SentinelEntry, SentinelSource};
use crate::hank::problem::{Problem, quoted};

/// Reports ids that one codon has twice, where at least one of the two is in a file (HANK-55). Repeated ids inside hank.json are found by `parse`.
///
/// `in_files` has the ids of sentinels in files, by the JSON path of the `sentinelConfig` that names the file.
#[must_use]
pub fn repeated_sentinels(hank: &Hank, in_files: &BTreeMap<String, String>) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (path, codon) in hank.located_codons() {
        // The first place of each id, and whether that is a file.
        let mut known: BTreeMap<&str, (String, bool)> = BTreeMap::new();
        for (place, entry) in codon.located_sentinels(&path) {
            let Some((id, in_file)) = id_of(entry, &place, in_files) else {
                continue;
            };
            match known.get(id) {
                None => {
                    known.insert(id, (place, in_file));
                }
                Some((first, first_in_file)) if in_file || *first_in_file => {
                    let message = format!("sentinel id {} is already used by {first}", quoted(id));
                    problems.push(Problem::error(&hank.places, place, message));
                }
                Some(_) => {}
            }
        }
    }
    problems
}

/// Returns the id of a sentinel, and whether it is in a file.
fn id_of<'a>(
    entry: &'a SentinelEntry,
    place: &str,
    in_files: &'a BTreeMap<String, String>,
) -> Option<(&'a str, bool)> {
    match &entry.sentinel_config {
        SentinelSource::File(_) => Some((in_files.get(place)?, true)),
        SentinelSource::Inline(config) => Some((config.get("id").and_then(Value::as_str)?, false)),
    }
}
