//! Orders of users and sentinels to end a running codon, and remarks for the codon's last record.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::shutdown::Shutdown;

/// Maximum number of remarks in a record; more add nothing new.
const MOST_REMARKS: usize = 16;

/// An order of a user or a sentinel to end the running codon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CodonCommand {
    /// The codon ends as skipped.
    Skip,
    /// The codon ends as failed, with this message: a sentinel wants that, or a required sentinel has failed.
    Fail(String),
    /// The codon ends as failed, and its agent is killed; with the reason of the user, if there is one.
    ForceStop(Option<String>),
}

/// The orders for one codon; all clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Orders {
    /// Cancelled when the codon has to end.
    halt: CancellationToken,
    /// Cancelled when the codon's processes have to be killed.
    force: CancellationToken,
    /// The first order.
    order: Arc<OnceLock<CodonCommand>>,
}

impl Orders {
    /// Starts without an order. The stop of the run also cancels `halt`, and its forced stop `force`.
    pub(crate) fn new(shutdown: &Shutdown) -> Self {
        Self {
            halt: shutdown.token().child_token(),
            force: shutdown.force_token().child_token(),
            order: Arc::default(),
        }
    }

    /// Gives an order. The first order counts; a forced stop after it only ends the grace period of the agent.
    pub(crate) fn give(&self, order: CodonCommand) {
        if matches!(order, CodonCommand::ForceStop(_)) {
            self.force.cancel();
        }
        let _ = self.order.set(order);
        self.halt.cancel();
    }

    /// Whether the order that counts is a forced stop.
    pub(crate) fn was_forced(&self) -> bool {
        matches!(self.order.get(), Some(CodonCommand::ForceStop(_)))
    }

    /// Returns the order that counts.
    pub(super) fn order(&self) -> Option<&CodonCommand> {
        self.order.get()
    }

    /// Returns the token that is cancelled as soon as the codon has to end.
    pub(crate) fn token(&self) -> &CancellationToken {
        &self.halt
    }

    /// Returns the token that is cancelled as soon as the codon's processes have to be killed: by an order, or because the stop of
    /// the run is forced.
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
