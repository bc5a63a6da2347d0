//! Notices at the start of a run about the last run in its directory: options that are kept from it, and an agent or data that differ from it. One
//! more is about a limit that an option of the run replaces.

use std::path::Path;

use hankweave_core::budget::Ceiling;
use hankweave_core::hank::Hank;
use hankweave_core::hank::exclude::DATA;
use hankweave_runtime::data::changed_since_start;
use hankweave_runtime::world::disk::{Disk as _, RealDisk};
use hankweave_runtime::{ExecutionDir, GivenOption};

use crate::args::SettingArgs;
use crate::hints::{HintCommands, option_words};

/// The option that names the agent of all codons.
const AGENT: &str = "agent";

/// Returns the notice of the options that a run keeps from the last run (RUN-41).
pub(crate) fn kept(options: &[GivenOption]) -> Option<String> {
    let words = options.iter().map(|option| option_words(option, Path::to_owned));
    let words: Vec<String> = words.collect();
    let words = words.join(" ");
    (!options.is_empty()).then(|| format!("as in the last run here: {words}; --forget leaves that out"))
}

/// Returns the notice for a run if the last run in the directory had another `--agent`. `hints` has the arguments of the new run.
pub(crate) fn other_agent(execution: &Path, hints: &HintCommands) -> Option<String> {
    let last = HintCommands::about(execution);
    let agent = last
        .option(AGENT)
        .filter(|agent| hints.option(AGENT) != Some(*agent))?;
    Some(format!(
        "the last run had `--agent {agent}`, and what it completed counts; --new starts over"
    ))
}

/// Returns the notice for a run without `--data` that still has the link to the data of an earlier run, if these have changed since then.
pub(crate) fn other_data(execution: &Path) -> Option<String> {
    RealDisk.metadata(&execution.join(DATA)).ok()?;
    let record = ExecutionDir::new(execution.to_owned()).data_record();
    let changed = changed_since_start(&RealDisk, &record)?;
    Some(format!(
        "the data {} have changed since a run began with them, and what was completed counts; --new starts over",
        changed.display()
    ))
}

/// Returns the notice for a run whose `--max-cost` replaces a lower limit of its hank.
pub(crate) fn replaced(settings: &SettingArgs, hank: Option<&Hank>, ceiling: Ceiling) -> Option<String> {
    let own = Ceiling::default().or_from_hank(hank?).max_dollars?;
    let given = ceiling
        .max_dollars
        .filter(|given| settings.max_cost.is_some() && *given > own)?;
    Some(format!(
        "--max-cost: the limit is {given} in place of the {own} of the hank"
    ))
}
