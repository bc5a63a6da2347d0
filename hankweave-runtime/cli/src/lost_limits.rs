//! Notices of a run about limits, an agent or data of the last one that it does not have, or that have changed.

use std::path::Path;

use hankweave_core::budget::Ceiling;
use hankweave_core::hank::Hank;
use hankweave_core::hank::exclude::DATA;
use hankweave_core::time::short_duration;
use hankweave_runtime::ExecutionDir;
use hankweave_runtime::data::changed_since_start;
use hankweave_runtime::world::disk::{Disk as _, RealDisk};

use crate::args::SettingArgs;
use crate::typed::HintCommands;

/// The option that names the agent of all codons.
const AGENT: &str = "agent";

/// Returns the sentence for a run after one with `--agent`, which this one has not, if codons of that one count as completed.
pub(crate) fn other_agent(execution: &Path, settings: &SettingArgs) -> Option<String> {
    let last = HintCommands::about(execution);
    let agent = last.option(AGENT).filter(|_| settings.agent.is_none())?;
    Some(format!(
        "the last run had `--agent {agent}`, and what it completed counts; --new starts over"
    ))
}

/// Returns the sentence for a run without `--data` after one with data that have changed since, if their link is still there.
pub(crate) fn other_data(execution: &Path) -> Option<String> {
    RealDisk.metadata(&execution.join(DATA)).ok()?;
    let record = ExecutionDir::new(execution.to_owned()).data_record();
    let changed = changed_since_start(&RealDisk, &record)?;
    Some(format!(
        "the data {} have changed since a run began with them, and what was completed counts; --new starts over",
        changed.display()
    ))
}

/// Returns the sentence for a run whose option replaces a lower limit of its hank.
pub(crate) fn replaced(settings: &SettingArgs, hank: Option<&Hank>, ceiling: Ceiling) -> Option<String> {
    let own = Ceiling::default().or_from_hank(hank?).max_dollars?;
    let given = ceiling
        .max_dollars
        .filter(|given| settings.max_cost.is_some() && *given > own)?;
    Some(format!(
        "--max-cost: the limit is {given} in place of the {own} of the hank"
    ))
}

/// Returns the sentence for a run with this `ceiling`, if the last run in `execution` was given a limit by `settings` of the command line that this one was not.
pub(crate) fn notice(execution: &Path, settings: &SettingArgs, ceiling: Ceiling) -> Option<String> {
    let last = HintCommands::about(execution);
    let dollars = ceiling.max_dollars.map(|dollars| dollars.to_string());
    let time = ceiling.max_time.map(short_duration);
    let limits = [
        ("max-cost", settings.max_cost.is_none(), dollars),
        ("max-time", settings.max_time.is_none(), time),
    ];
    let lost = limits.into_iter().filter(|(_, is_free, _)| *is_free);
    let lost = lost.filter_map(|(name, _, own)| Some((format!("`--{name} {}`", last.option(name)?), own)));
    let (named, own): (Vec<String>, Vec<Option<String>>) = lost.unzip();
    let own: Vec<String> = own.into_iter().flatten().collect();
    let has = match own.as_slice() {
        [] => "no such limit, as none was given".to_owned(),
        own => format!("{}, as its hank or settings say", own.join(" and ")),
    };
    (!named.is_empty()).then(|| format!("the last run had {}; this one has {has}", named.join(" and ")))
}
