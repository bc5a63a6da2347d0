//! Limits of the last run that the next one does not have: they are not taken over, and it says so.

use std::path::Path;

use hankweave_core::budget::Ceiling;

use crate::typed::HintCommands;

/// Returns the sentence for a run with this `ceiling`, if the last run in `execution` was given a limit on the command line that this one has not got.
pub(crate) fn notice(execution: &Path, ceiling: Ceiling) -> Option<String> {
    let last = HintCommands::about(execution);
    let limits = [
        ("max-cost", ceiling.max_dollars.is_none()),
        ("max-time", ceiling.max_time.is_none()),
    ];
    let lost = limits.into_iter().filter(|(_, is_free)| *is_free);
    let lost: Vec<String> = lost
        .filter_map(|(name, _)| Some(format!("`--{name} {}`", last.option(name)?)))
        .collect();
    (!lost.is_empty()).then(|| {
        let named = lost.join(" and ");
        format!("the last run had {named}; this one has no such limit, as none was given")
    })
}
