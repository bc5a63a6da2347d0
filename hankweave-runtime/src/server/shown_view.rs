//! View of the run, and the clients that follow it: the hub applies events to the view and says when the followers get a patch (WIRE-40).

use std::collections::BTreeMap;
use std::sync::Arc;

use hankweave_core::time::Timestamp;
use hankweave_core::view::{RunState, RunView, change_message};
use hankweave_core::wire::{DirectPayload, JournalEntry};
use serde_json::Value;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::outbox::Outbox;
use super::replies::Replies;

/// The view, as it is and as its followers have it.
#[derive(Debug)]
pub(super) struct ShownView {
    view: RunView,
    /// View that all followers have; it is not updated while there are no followers.
    sent: Value,
    followers: BTreeMap<u64, Arc<Outbox>>,
}

impl ShownView {
    pub(super) const fn new(view: RunView) -> Self {
        Self {
            view,
            sent: Value::Null,
            followers: BTreeMap::new(),
        }
    }

    pub(super) fn take(&mut self, entry: &JournalEntry) {
        self.view.take(entry);
    }

    /// Notes that no process works on the run any more, which was alive at least until its last `heartbeat`. Sends the
    /// resulting changes to the followers.
    pub(super) fn mark_crashed(&mut self, heartbeat: Option<Timestamp>, replies: &Replies) {
        self.view.note_alive(heartbeat);
        self.view.mark_crashed(None);
        self.patch(replies);
    }

    pub(super) fn is_open(&self) -> bool {
        !self.view.state.has_ended() && self.view.state != RunState::Planned
    }

    pub(super) const fn state(&self) -> RunState {
        self.view.state
    }

    /// Sends the view to a client, and its patches from now on.
    pub(super) fn join(&mut self, number: u64, outbox: &Arc<Outbox>, replies: &Replies) {
        let view = self.current(replies);
        outbox.push(replies.answer(None, DirectPayload::View { view }));
        self.followers.insert(number, Arc::clone(outbox));
    }

    pub(super) fn leave(&mut self, number: u64) {
        self.followers.remove(&number);
    }

    pub(super) fn has_followers(&self) -> bool {
        !self.followers.is_empty()
    }

    /// Sends its followers a message that is no event of the journal.
    pub(super) fn broadcast(&self, text: &Utf8Bytes) {
        for outbox in self.followers.values() {
            // A full outbox is noticed by the client's own task.
            outbox.push(text.clone());
        }
    }

    /// Returns the view, after sending it to all its followers.
    pub(super) fn current(&mut self, replies: &Replies) -> Value {
        match self.followers.is_empty() {
            true => self.sent = self.view.to_json(),
            false => self.patch(replies),
        }
        self.sent.clone()
    }

    /// Sends its followers what has changed.
    pub(super) fn patch(&mut self, replies: &Replies) {
        if self.followers.is_empty() {
            return;
        }
        let view = self.view.to_json();
        if let Some(change) = change_message(&self.sent, &view) {
            self.broadcast(&replies.answer(None, change));
        }
        self.sent = view;
    }
}
