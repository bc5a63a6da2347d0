//! Limits of the last run that the next one does not have: they are not taken over, and it says so.

use std::path::Path;

use hankweave_core::budget::Ceiling;
use hankweave_core::time::short_duration;

use crate::typed::HintCommands;

/// Returns the sentence for a run with the limits `given` to it, and those of its hank besides in `ceiling`, if the last run in `execution` was given a limit on
/// the command line that this one was not.
pub(crate) fn notice(execution: &Path, given: Ceiling, ceiling: Ceiling) -> Option<String> {
    let last = HintCommands::about(execution);
    let dollars = ceiling.max_dollars.map(|dollars| dollars.to_string());
    let limits = [
        ("max-cost", given.max_dollars.is_none(), dollars),
        (
            "max-time",
            given.max_time.is_none(),
            ceiling.max_time.map(short_duration),
        ),
    ];
    let lost = limits.into_iter().filter(|(_, is_free, _)| *is_free);
    let lost = lost.filter_map(|(name, _, own)| Some((format!("`--{name} {}`", last.option(name)?), own)));
    let (named, own): (Vec<String>, Vec<Option<String>>) = lost.unzip();
    let own: Vec<String> = own.into_iter().flatten().collect();
    let has = match own.as_slice() {
        [] => "no such limit".to_owned(),
        own => format!("{}, the limit of its hank", own.join(" and ")),
    };
    (!named.is_empty()).then(|| {
        format!(
            "the last run had {}; this one has {has}, as none was given",
            named.join(" and ")
        )
    })
}
