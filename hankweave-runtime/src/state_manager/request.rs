//! Requests from handles to the writer, and its answers.

use std::sync::Arc;
use std::time::Duration;

use hankweave_core::event::StateEvent;
use hankweave_core::time::Timestamp;
use hankweave_core::wire::Event;
use tokio::sync::oneshot;

use super::{PersistenceError, TransitionError};

/// How long the last save may take (D8).
pub(super) const LAST_SAVE: Duration = Duration::from_secs(5);

pub(super) type TransitionReply = oneshot::Sender<Result<Receipt, TransitionError>>;
pub(super) type ShutdownReply = oneshot::Sender<Result<(), Arc<PersistenceError>>>;

/// Request of a handle.
#[derive(Debug)]
pub(super) enum ActorRequest {
    /// Record an event that changes the document.
    Transition(StateEvent, TransitionReply),
    /// Record an event that does not change the document.
    Record(Box<Event>, TransitionReply),
    /// Save everything and end.
    Shutdown(ShutdownReply),
}

/// Position of a durable event in history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    /// Its number.
    pub seq: u64,
    /// When it was recorded.
    pub at: Timestamp,
}

/// Answers all senders that the disk failed.
pub(super) fn refuse(replies: impl IntoIterator<Item = TransitionReply>, error: &Arc<PersistenceError>) {
    for reply in replies {
        answer(reply, Err(TransitionError::NotDurable(Arc::clone(error))));
    }
}

/// Answers the sender of an event, which may have dropped its ticket.
pub(super) fn answer(reply: TransitionReply, result: Result<Receipt, TransitionError>) {
    let _ = reply.send(result);
}
