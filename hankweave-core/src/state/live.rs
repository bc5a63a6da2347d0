//! The document that a live run changes, with cost totals and an index that are kept up to date with each event.

use super::apply::apply_event;
use super::index::Index;
use super::{Applied, Rejected};
use crate::cost::Usd;
use crate::document::{HankweaveState, RunRecord};
use crate::event::{Recorded, StateEvent};
use crate::time::Timestamp;

/// A document with its cost totals and an index of its records, which would be too slow to compute for every event.
#[derive(Debug, Clone, Default)]
pub struct LiveState {
    document: HankweaveState,
    totals: Totals,
    /// When an event last reported or changed a cost.
    costs_updated: Option<Timestamp>,
    index: Index,
}

/// The cost figures that go out with every state event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Cost of all codons of all runs, except skipped ones.
    pub total: Usd,
    /// Cost of the codons of the current run; zero when there is none.
    pub current_run: Usd,
    /// Spending of all runs, including skipped codons and sentinels.
    pub spend: Usd,
}

impl LiveState {
    /// Takes over a document and sums its costs once.
    #[must_use]
    pub fn new(document: HankweaveState) -> Self {
        let totals = Totals {
            total: document.total_cost(),
            current_run: document.current_run().map_or(Usd::ZERO, RunRecord::codon_cost),
            spend: document.total_spend(),
        };
        let index = Index::of(&document);
        Self {
            document,
            totals,
            costs_updated: None,
            index,
        }
    }

    /// The document.
    #[must_use]
    pub fn document(&self) -> &HankweaveState {
        &self.document
    }

    /// Gives the document back.
    #[must_use]
    pub fn into_document(self) -> HankweaveState {
        self.document
    }

    /// The totals of the document.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// When a cost was last recorded; `None` when none was since the document was taken over.
    #[must_use]
    pub fn costs_updated(&self) -> Option<Timestamp> {
        self.costs_updated
    }

    /// Applies one recorded event: everything of it, or nothing.
    ///
    /// # Errors
    ///
    /// Returns [`Rejected`]; nothing is then changed.
    pub fn apply(&mut self, recorded: &Recorded<StateEvent>) -> Result<Applied, Rejected> {
        self.apply_event(&recorded.event, recorded.at)
    }

    /// [`apply`](Self::apply) for an event that is recorded at `at`.
    ///
    /// # Errors
    ///
    /// Returns [`Rejected`]; nothing is then changed.
    pub fn apply_event(&mut self, event: &StateEvent, at: Timestamp) -> Result<Applied, Rejected> {
        let applied = apply_event(&mut self.document, &mut self.index, event, at)?;
        self.totals.total = self.totals.total.saturating_sub(applied.cost_before) + applied.cost_after;
        self.totals.spend = self.totals.spend.saturating_sub(applied.spend_before) + applied.spend_after;
        if event.tells_costs() || applied.cost_before != applied.cost_after {
            self.costs_updated = Some(at);
        }
        let is_new_run = matches!(event, StateEvent::RunStarted { .. });
        if is_new_run || self.document.current_run_id.is_none() {
            self.totals.current_run = Usd::ZERO;
        } else if applied.in_current_run {
            self.totals.current_run =
                self.totals.current_run.saturating_sub(applied.cost_before) + applied.cost_after;
        }
        Ok(applied)
    }
}
