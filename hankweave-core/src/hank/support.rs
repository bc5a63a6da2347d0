//! What a hank can say that a run cannot do yet.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::document::{Hank, SentinelSource};
use super::problem::Problem;

/// Every use of a feature that a run does not have yet, as an error with its place: settings of all sentinels, and sentinels that ask a model. `files` are the
/// sentinels in files of their own, by their paths.
///
/// The hank is valid; only a run has to refuse it.
#[must_use]
pub fn unsupported(hank: &Hank, files: &BTreeMap<String, Map<String, Value>>) -> Vec<Problem> {
    let overrides = hank.overrides.iter();
    let overrides = overrides.filter(|overrides| overrides.sentinel.is_some());
    let settings = overrides.map(|_| {
        let message = "not supported yet: settings of all sentinels";
        Problem::error(&hank.places, "overrides.sentinel".to_owned(), message)
    });
    let asks_a_model = |source: &SentinelSource| match source {
        SentinelSource::Inline(config) => !config.contains_key("command"),
        SentinelSource::File(path) => files
            .get(path)
            .is_some_and(|config| !config.contains_key("command")),
    };
    let sentinels = hank.located_codons().flat_map(|(at, codon)| {
        let entries = codon.sentinels.iter().enumerate();
        let asking = entries.filter(|(_, entry)| asks_a_model(&entry.sentinel_config));
        asking
            .map(move |(index, _)| format!("{at}.sentinels[{index}].sentinelConfig"))
            .collect::<Vec<_>>()
    });
    let message =
        "not supported yet: sentinels that ask a model; a sentinel with a `command` gets the same events";
    settings
        .chain(sentinels.map(|path| Problem::error(&hank.places, path, message)))
        .collect()
}
