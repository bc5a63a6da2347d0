//! Orders of a user for a codon that runs, and remarks about it.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::shutdown::Shutdown;

/// Maximum number of remarks in a record; more add nothing new.
const MOST_REMARKS: usize = 16;

/// A user's order about the running codon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CodonCommand {
    /// It ends as skipped.
    Skip,
    /// It ends as failed, because a sentinel wants it or has failed itself.
    Fail(String),
    /// It ends as failed, its agent is killed.
    ForceStop(Option<String>),
}

/// The orders for one codon; all clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Orders {
    halt: CancellationToken,
    force: CancellationToken,
    order: Arc<OnceLock<CodonCommand>>,
}

impl Orders {
    /// No order yet. The codon also ends when the run is asked to stop.
    pub(crate) fn new(shutdown: &Shutdown) -> Self {
        Self {
            halt: shutdown.token().child_token(),
            force: shutdown.force_token().child_token(),
            order: Arc::default(),
        }
    }

    /// Gives an order. The first one counts; a forced stop after a skip only skips the grace period.
    pub(crate) fn give(&self, order: CodonCommand) {
        if matches!(order, CodonCommand::ForceStop(_)) {
            self.force.cancel();
        }
        let _ = self.order.set(order);
        self.halt.cancel();
    }

    /// Whether the codon was stopped by force, and nothing else.
    pub(crate) fn was_forced(&self) -> bool {
        matches!(self.order.get(), Some(CodonCommand::ForceStop(_)))
    }

    /// Returns the order that counts.
    pub(super) fn given(&self) -> Option<&CodonCommand> {
        self.order.get()
    }

    /// Cancelled as soon as the codon has to end.
    pub(crate) fn token(&self) -> &CancellationToken {
        &self.halt
    }

    /// Cancelled as soon as what runs has to be killed: by an order, or because the stop of the run is
    /// forced.
    pub(crate) fn force_token(&self) -> &CancellationToken {
        &self.force
    }
}

/// Remarks for people about a codon, for its last record; all clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Remarks(Arc<Mutex<Vec<String>>>);

impl Remarks {
    pub(super) fn add(&self, remark: String) {
        let mut remarks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A sentinel may cause an equal remark at each event.
        if remarks.len() < MOST_REMARKS && !remarks.contains(&remark) {
            remarks.push(remark);
        }
    }

    /// Adds a remark, if there is one.
    pub(super) fn extend(&self, remark: Option<String>) {
        remark.into_iter().for_each(|remark| self.add(remark));
    }

    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
