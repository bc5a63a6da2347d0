//! Costs of the codons, which are kept up to date so that a reader need not add up the history.

use hankweave_core::cost::Usd;
use hankweave_core::state::{LiveState, Totals};
use hankweave_core::time::Timestamp;

/// Cost of the codons (STATE-47), without skipped codons and without sentinels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CostFigures {
    /// All codons of all runs.
    pub total: Usd,
    /// The codons of the current run; zero if there is no run.
    pub current_run: Usd,
    /// When a cost was recorded last; `None` before this process has recorded one.
    pub last_updated: Option<Timestamp>,
}

impl CostFigures {
    pub(super) fn of(live: &LiveState) -> Self {
        let Totals {
            total, current_run, ..
        } = live.totals();
        Self {
            total,
            current_run,
            last_updated: live.costs_updated(),
        }
    }
}
