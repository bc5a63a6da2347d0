//! Limits of a task before its run starts, each with its source.

use std::time::Duration;

use hankweave_core::hank::{Hank, HankItem, Setting, SettingValue};
use hankweave_core::time::short_duration;
use hankweave_tasks::worker::TaskSpec;

use super::budgets;
use crate::args::settings_of_run;
use crate::config;
use crate::failures::load_hank;
use crate::settings::{Configuration, SettingSource};

/// Most codons and loops whose limits are listed.
const LISTED: usize = 10;

/// Limits of the next attempt of a task, as a worker on this machine finds them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TaskLimits {
    /// Limits of all attempts together, each with its source.
    total: Vec<(String, String)>,
    /// Limits of codons and loops, in the order of the hank.
    items: Vec<String>,
}

impl TaskLimits {
    /// Returns the limits of a task; `None` where its hank or its settings cannot be read here.
    pub(crate) fn of(spec: &TaskSpec) -> Option<Self> {
        let settings = settings_of_run(&spec.hank, &spec.arguments).ok()?;
        let hank = load_hank(&spec.hank).ok()?.hank?;
        let configuration = config::resolve_trusted(Some(&hank), &config::flags(&settings).ok()?).ok()?;
        Some(Self {
            total: total(&configuration),
            items: items(&hank),
        })
    }

    /// Returns the limits of all attempts together in words; `None` without any.
    pub(crate) fn total(&self) -> Option<String> {
        if self.total.is_empty() {
            return None;
        }
        let values: Vec<&str> = self.total.iter().map(|(value, _)| value.as_str()).collect();
        let mut sources: Vec<&str> = self.total.iter().map(|(_, source)| source.as_str()).collect();
        // Limits of money and time often have one source.
        sources.dedup();
        let (values, sources) = (values.join(" and "), sources.join(" and "));
        Some(format!("{values}, all attempts together, from {sources}"))
    }

    /// Returns all limits, a line each.
    pub(crate) fn lines(&self) -> Vec<String> {
        let total = self.total().map(|total| format!("budget: {total}"));
        total.into_iter().chain(self.of_items()).collect()
    }

    /// Returns the limits of codons and loops: `draft may use $0.2000`.
    pub(crate) fn of_items(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.items.iter().take(LISTED).cloned().collect();
        let more = self.items.len().saturating_sub(LISTED);
        if more > 0 {
            lines.push(format!("and {more} more"));
        }
        lines
    }
}

/// Returns the limits of all attempts together, each with its source.
fn total(configuration: &Configuration) -> Vec<(String, String)> {
    let limits = configuration.iter().filter_map(|(setting, value, source)| {
        let value = match (setting, value?) {
            (Setting::MaxDollars, SettingValue::Dollars(dollars)) => dollars.to_string(),
            (Setting::MaxTimeSeconds, SettingValue::Seconds(seconds)) => {
                let time = Duration::try_from_secs_f64(*seconds).unwrap_or(Duration::MAX);
                format!("{} at work", short_duration(time))
            }
            _ => return None,
        };
        let option = match setting {
            Setting::MaxDollars => "--max-cost",
            _ => "--max-time",
        };
        Some((value, words(source, option)))
    });
    limits.collect()
}

/// Returns the source of a limit in words; `option` is the option that sets the limit on the command line.
fn words(source: &SettingSource, option: &str) -> String {
    match source {
        SettingSource::Flag => option.to_owned(),
        SettingSource::Variable(name) => name.clone(),
        SettingSource::Hank(_) => "hank.json".to_owned(),
        SettingSource::File(_) => "hankweave.json".to_owned(),
        SettingSource::User(_) => "your hankweave.json".to_owned(),
        SettingSource::Default => "the default".to_owned(),
    }
}

/// Returns a line for each codon and loop with limits.
fn items(hank: &Hank) -> Vec<String> {
    let mut lines = Vec::new();
    for item in &hank.items {
        if let HankItem::Loop(found) = item
            && let Some(limits) = found.budget.as_ref().and_then(budgets::of_container)
        {
            lines.push(format!("{} {limits}", found.id));
        }
        let codons = item.codons().iter();
        lines.extend(codons.filter_map(|codon| {
            let limits = codon.budget.and_then(|budget| budgets::of_codon(&budget))?;
            Some(format!("{} {limits}", codon.id))
        }));
    }
    lines
}
