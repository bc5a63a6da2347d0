//! Figures of the state document, which accompany each state event in the event `state.transition`.

use serde::{Deserialize, Serialize};

use crate::cost::Usd;
use crate::id::RunId;
use crate::state::LiveState;

/// The figures that accompany every state event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CurrentFigures {
    /// The current run, if there is one.
    pub current_run_id: Option<RunId>,
    /// How many runs are recorded.
    pub run_count: usize,
    /// All codons of all runs, in US dollars; skipped ones count nothing.
    pub total_cost: Usd,
    /// The codons of the current run, in US dollars; skipped ones count nothing.
    pub current_run_cost: Usd,
    /// Spending of all runs, in US dollars, including skipped codons and sentinels; absent in older journals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_spend: Option<Usd>,
}

impl CurrentFigures {
    /// The figures of a document.
    #[must_use]
    pub fn of(state: &LiveState) -> Self {
        let (document, totals) = (state.document(), state.totals());
        Self {
            current_run_id: document.current_run_id.clone(),
            run_count: document.runs.len(),
            total_cost: totals.total,
            current_run_cost: totals.current_run,
            total_spend: Some(totals.spend),
        }
    }
}
