//! The document with its running totals.

use super::{Applied, HankweaveState, Rejected, apply};
use crate::cost::Usd;
use crate::event::{Recorded, StateEvent};

/// A document and the cost totals that would be too slow to sum anew for every event.
#[derive(Debug, Clone, Default)]
pub struct LiveState {
    document: HankweaveState,
    totals: Totals,
}

/// The cost figures that go out with every state event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// All codons of all runs.
    pub total: Usd,
    /// The codons of the current run; zero when there is none.
    pub current_run: Usd,
}

impl LiveState {
    /// Takes over a document and sums its costs once.
    #[must_use]
    pub fn new(document: HankweaveState) -> Self {
        let totals = Totals {
            total: document.total_cost(),
            current_run: document.current_run().map_or(Usd::ZERO, super::Run::codon_cost),
        };
        Self { document, totals }
    }

    /// The document.
    #[must_use]
    pub fn document(&self) -> &HankweaveState {
        &self.document
    }

    /// The totals of the document.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Applies one event to the document and keeps the totals; see [`apply`].
    ///
    /// # Errors
    ///
    /// Returns [`Rejected`]; nothing is then changed.
    pub fn apply(&mut self, recorded: &Recorded<StateEvent>) -> Result<Applied, Rejected> {
        let applied = apply(&mut self.document, recorded)?;
        self.totals.total = self.totals.total.saturating_sub(applied.cost_before) + applied.cost_after;
        let begins_anew = matches!(recorded.event, StateEvent::RunStarted { .. });
        if begins_anew || self.document.current_run_id.is_none() {
            self.totals.current_run = Usd::ZERO;
        } else if applied.in_current_run {
            self.totals.current_run =
                self.totals.current_run.saturating_sub(applied.cost_before) + applied.cost_after;
        }
        Ok(applied)
    }
}
