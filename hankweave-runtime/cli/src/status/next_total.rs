//! Total budget of the next run (CLI-4).

use hankweave_core::budget::Ceiling;
use hankweave_core::hank::Hank;

use crate::config;
use crate::hints::HintCommands;
use crate::settings::Flags;

/// Returns the total budget of the next run of the remembered command, before a used-up limit is raised.
///
/// `last` is the total of the last run, and `own` is what the hank and the settings now allow. A limit that was typed stays, even if the hank now has
/// a larger one: an offered command never spends more than the user wanted.
pub(super) fn next_total(last: Ceiling, own: Option<Ceiling>, hints: &HintCommands) -> Ceiling {
    let Some(own) = own else { return last };
    let is_typed = |name| hints.option(name).is_some();
    Ceiling {
        max_dollars: if is_typed("max-cost") {
            last.max_dollars
        } else {
            own.max_dollars
        },
        max_time: if is_typed("max-time") {
            last.max_time
        } else {
            own.max_time
        },
    }
}

/// Returns the total that the hank and the settings now allow; `None` if the settings of this folder are not those of the remembered command.
pub(super) fn own_ceiling(hank: &Hank, hints: &HintCommands) -> Option<Ceiling> {
    if !hints.has_settings_of_here() {
        return None;
    }
    let configuration = config::resolve(Some(hank), &Flags::new()).ok()?;
    Some(configuration.ceiling().or_from_hank(hank))
}
