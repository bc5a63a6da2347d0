//! Checks, before a run, whether the models of sentinels can be asked and their costs be counted (SENT-15).

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::ModelEndpoint;
use crate::cost::pricing::Prices;
use crate::hank::{CodonConfig, Hank, Problem, SentinelEntry, Severity};
use crate::sentinel::SentinelConfig;

/// Returns sentinels whose models cannot be asked, and sentinels whose costs cannot be counted.
///
/// A model that cannot be asked is an error if the codon must not run without the sentinel, else a warning, because the sentinel is left out. A cost that
/// cannot be counted is an error if it is limited, else a warning. `files` has the sentinels in files of their own, `limited` says whether there is a total
/// budget, and `variable` returns the value of a variable for a codon, if it is set and not empty.
#[must_use]
pub fn unready_sentinels(
    hank: &Hank,
    files: &BTreeMap<String, Map<String, Value>>,
    prices: &Prices,
    limited: bool,
    variable: impl Fn(&CodonConfig, &str) -> Option<String>,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (at, codon) in hank.located_codons() {
        for (place, entry) in codon.located_sentinels(&at) {
            let Ok(config) = SentinelConfig::of(entry, files) else {
                continue;
            };
            let faults = [
                unasked(&config, entry, |name| variable(codon, name)),
                uncounted(&config, prices, limited, |name| variable(codon, name)),
            ];
            problems.extend(
                faults
                    .into_iter()
                    .flatten()
                    .map(|(level, message, hint)| Problem {
                        level,
                        hint,
                        ..Problem::error(&hank.places, place.clone(), message)
                    }),
            );
        }
    }
    problems
}

/// Level, message and hint of a problem.
type Fault = (Severity, String, Option<String>);

/// Returns the problem if the sentinel's model cannot be asked.
fn unasked(
    config: &SentinelConfig,
    entry: &SentinelEntry,
    variable: impl Fn(&str) -> Option<String>,
) -> Option<Fault> {
    config.model.as_ref()?;
    let why = ModelEndpoint::of(config, variable).err()?;
    let (level, message) = unloaded(config, entry, &why.to_string());
    Some((level, message, None))
}

/// Returns level and message for a sentinel that cannot be loaded: an error if its codon must not run without it, else a warning that it is left out.
#[must_use]
pub fn unloaded(config: &SentinelConfig, entry: &SentinelEntry, why: &str) -> (Severity, String) {
    let id = &config.id;
    match entry.is_needed() {
        true => (Severity::Error, format!("sentinel {id} cannot be loaded: {why}")),
        false => (
            Severity::Warning,
            format!("sentinel {id} will be left out: {why}"),
        ),
    }
}

/// Returns the problem if the cost of the sentinel's model cannot be counted.
fn uncounted(
    config: &SentinelConfig,
    prices: &Prices,
    limited: bool,
    variable: impl Fn(&str) -> Option<String>,
) -> Option<Fault> {
    let model = config.model.as_deref()?;
    if prices.find(model).is_some() {
        return None;
    }
    let endpoint = ModelEndpoint::of(config, variable);
    // A server at another address (`baseUrl`) may not report costs as the provider does.
    let is_elsewhere = config.endpoint.as_ref().is_some_and(|own| own.base_url.is_some());
    if !is_elsewhere && endpoint.as_ref().is_ok_and(|endpoint| endpoint.reports_cost) {
        return None;
    }
    let hint = "give it one as `prices` in hankweave.json; what costs nothing has the price 0";
    let (level, message) = match limited || config.max_dollars.is_some() {
        true => (
            Severity::Error,
            format!("the limit in dollars cannot be held: no price is known of `{model}`"),
        ),
        // A model on this machine costs nothing.
        false if endpoint.is_ok_and(|endpoint| endpoint.is_local()) => return None,
        false => (
            Severity::Warning,
            format!("no price is known of `{model}`, so what it costs is unknown"),
        ),
    };
    Some((level, message, Some(hint.to_owned())))
}
