//! Total budget of the next run (CLI-4).

use hankweave_core::budget::{Ceiling, CeilingUse};
use hankweave_core::document::HankweaveState;
use hankweave_core::hank::Hank;

use crate::config;
use crate::settings::Flags;
use crate::typed::{CommandEdit, HintCommands};

/// Total budget of the next run as its command gives it, and how that command differs from the last one.
#[derive(Debug, Default)]
pub(super) struct NextTotal {
    /// Total that would hold without a raise.
    pub(super) ceiling: Ceiling,
    /// Options of the last run that are left out, because the hank allows more by now.
    pub(super) left_out: Vec<CommandEdit<'static>>,
}

impl NextTotal {
    /// Returns the total of a run of the same command after `state`, where the last run had `last`, and the hank and the settings now allow `own`.
    pub(super) fn of(
        last: Ceiling,
        own: Option<Ceiling>,
        typed: &HintCommands,
        state: &HankweaveState,
    ) -> Self {
        let Some(own) = own else {
            return Self {
                ceiling: last,
                left_out: Vec::new(),
            };
        };
        let used = CeilingUse::of(last, state);
        let given = |name| typed.option(name).is_some();
        let (max_dollars, is_more) = next(last.max_dollars, own.max_dollars, used.spent(), given("max-cost"));
        let (max_time, is_longer) = next(last.max_time, own.max_time, used.elapsed(), given("max-time"));
        let left_out = [(is_more, "max-cost"), (is_longer, "max-time")].into_iter();
        Self {
            ceiling: Ceiling {
                max_dollars,
                max_time,
            },
            left_out: left_out
                .filter(|(is_left_out, _)| *is_left_out)
                .map(|(_, name)| CommandEdit::Without(name))
                .collect(),
        }
    }
}

/// Returns the limit of the next run, and whether the option of the last one is left out for that: it is used up, and the hank has more.
fn next<T: PartialOrd + Copy>(last: Option<T>, own: Option<T>, used: T, is_given: bool) -> (Option<T>, bool) {
    let is_used_up = last.is_some_and(|last| used >= last);
    let has_more = is_used_up && own.is_some_and(|own| used < own);
    match is_given {
        true if has_more => (own, true),
        true => (last, false),
        false => (own, false),
    }
}

/// Returns the total that the hank and the settings allow, as they are now; `None` where other settings hold than those of this folder.
pub(super) fn own_ceiling(hank: &Hank, typed: &HintCommands) -> Option<Ceiling> {
    if !typed.has_settings_of_here() {
        return None;
    }
    let configuration = config::resolve(Some(hank), &Flags::new()).ok()?;
    Some(configuration.ceiling().or_from_hank(hank))
}

#[cfg(test)]
mod tests {
    use super::next;

    // covers: CLI-4
    #[test]
    fn an_option_that_is_used_up_is_left_out_where_the_hank_has_more() {
        // Raised in the hank since, used up beside the hank's larger one, used up beyond both, not used up, and removed from the hank.
        assert_eq!(next(Some(4), Some(25), 5, false), (Some(25), false));
        assert_eq!(next(Some(12), Some(20), 13, true), (Some(20), true));
        assert_eq!(next(Some(12), Some(10), 13, true), (Some(12), false));
        assert_eq!(next(Some(12), Some(20), 3, true), (Some(12), false));
        assert_eq!(next(Some(4), None, 5, false), (None, false));
    }
}
