//! What a hank can say that a run cannot do yet.

use super::document::Hank;
use super::problem::Problem;

/// Every use of a feature that a run does not have yet, as an error with its place: settings of all sentinels.
///
/// The hank is valid; only a run has to refuse it.
#[must_use]
pub fn unsupported(hank: &Hank) -> Vec<Problem> {
    let overrides = hank.overrides.iter();
    let overrides = overrides.filter(|overrides| overrides.sentinel.is_some());
    let settings = overrides.map(|_| {
        let message = "not supported yet: settings of all sentinels";
        Problem::error(&hank.places, "overrides.sentinel".to_owned(), message)
    });
    settings.collect()
}
