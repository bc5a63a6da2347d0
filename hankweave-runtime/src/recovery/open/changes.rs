//! Whether a hank fits the plan of the run that goes on (STATE-45).

use hankweave_core::document::HankweaveState;
use hankweave_core::hank::Hank;
use hankweave_core::plan::hank_changes;
use hankweave_core::thread;

use super::OpenError;
use crate::options::RunOptions;

/// What to tell about a hank that has changed since its run began.
///
/// # Errors
///
/// [`OpenError::ChangedHank`] when the rest of the plan cannot be done with it.
pub(super) fn check(
    state: &HankweaveState,
    hank: &Hank,
    options: &RunOptions,
) -> Result<Vec<String>, OpenError> {
    if options.fresh || state.runs.is_empty() {
        return Ok(Vec::new());
    }
    let thread = thread::build(state, None, None);
    let changes = hank_changes(state, &thread, hank);
    match changes.misfits.is_empty() {
        true => Ok(changes.notices()),
        false => Err(OpenError::ChangedHank(changes.misfits)),
    }
}
