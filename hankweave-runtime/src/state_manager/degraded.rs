//! The degraded state of the manager: the disk has failed, and nothing is recorded any more.

use std::sync::Arc;

use tokio::sync::watch;

use super::PersistenceError;
use crate::error::chain;

/// The first failure of the disk, after which nothing is written any more (P5). Clones
/// share it.
#[derive(Debug, Clone)]
pub(super) struct Degraded(Arc<watch::Sender<Option<Arc<PersistenceError>>>>);

impl Degraded {
    /// Returns the state without a failure, and a receiver that gets the first failure.
    pub(super) fn new() -> (Self, watch::Receiver<Option<Arc<PersistenceError>>>) {
        let (sender, receiver) = watch::channel(None);
        (Self(Arc::new(sender)), receiver)
    }

    /// The first failure, if there was one.
    pub(super) fn failure(&self) -> Option<Arc<PersistenceError>> {
        self.0.borrow().clone()
    }

    /// Notes a failure; only the first one counts.
    pub(super) fn note(&self, error: Arc<PersistenceError>) {
        tracing::error!(error = chain(&error), "the disk failed; no more work is recorded");
        self.0.send_if_modified(|first| {
            let is_first = first.is_none();
            first.get_or_insert(error);
            is_first
        });
    }
}
