//! Passes each event from the single writer to every client, and folds the view of the run, whose patches go to the clients that follow it. The hub only puts
//! messages into outboxes, so it never waits for a client.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hankweave_core::time::Timestamp;
use hankweave_core::view::RunView;
use hankweave_core::wire::{Event, IdleReason};
use serde_json::Value;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::outbox::Outbox;
use super::replies::Replies;
use super::shown_view::ShownView;
use crate::journal::BatchLine;
use crate::state_manager::{Delivery, Events, Subscription};
use crate::world::disk::IoError;

/// Time between two patches of the view, while the state of the run does not change.
const PATCH_PACE: Duration = Duration::from_millis(100);

/// When the next patch of the view is sent; `None` while nothing has changed.
#[derive(Debug, Default)]
struct PatchPace {
    due: Option<Instant>,
}

impl PatchPace {
    /// Notes a change at `now`. Returns whether it is sent at once, as a change of the run's state is; any other change waits for the next patch.
    fn sends_now(&mut self, is_of_state: bool, now: Instant) -> bool {
        if is_of_state {
            self.due = None;
        } else {
            self.due.get_or_insert(now + PATCH_PACE);
        }
        is_of_state
    }
}

/// The clients that get new events.
#[derive(Debug)]
pub(super) struct Hub(Mutex<HubState>);

#[derive(Debug)]
struct HubState {
    /// The `seq` of the last event that was passed on.
    position: u64,
    /// Clients that get new events, by number, so that their order is always the same.
    members: BTreeMap<u64, Member>,
    /// Why nothing runs; `None` while something runs.
    idle: Option<IdleState>,
    /// View of the run, and the clients that follow it.
    shown: ShownView,
}

/// A client that gets new events.
#[derive(Debug)]
struct Member {
    outbox: Arc<Outbox>,
    /// It gets only events after this one: it has earlier ones from the journal, or they are from before it joined.
    after: u64,
}

/// Why nothing runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IdleState {
    pub(super) reason: IdleReason,
    pub(super) message: String,
}

impl Hub {
    /// A hub that has passed on everything up to `position`.
    pub(super) fn new(position: u64, view: RunView) -> Self {
        Self(Mutex::new(HubState {
            position,
            members: BTreeMap::new(),
            idle: None,
            shown: ShownView::new(view),
        }))
    }

    /// From now on the client gets the view and its patches.
    pub(super) fn show(&self, number: u64, outbox: &Arc<Outbox>, replies: &Replies) {
        self.inner().shown.join(number, outbox, replies);
    }

    /// Returns the view as the clients that follow it have it now.
    pub(super) fn view(&self, replies: &Replies) -> Value {
        self.inner().shown.current(replies)
    }

    /// From now on the client gets new events; returns the last event before them (WIRE-4).
    pub(super) fn join(&self, number: u64, outbox: &Arc<Outbox>) -> u64 {
        let mut inner = self.inner();
        let after = inner.position;
        let outbox = Arc::clone(outbox);
        inner.members.insert(number, Member { outbox, after });
        after
    }

    /// Joins a client that has everything up to `after` from the journal. `false`: there are newer events,
    /// which it has to read first.
    pub(super) fn join_after(&self, number: u64, outbox: &Arc<Outbox>, after: u64) -> bool {
        let mut inner = self.inner();
        if inner.position > after {
            return false;
        }
        let outbox = Arc::clone(outbox);
        inner.members.insert(number, Member { outbox, after });
        true
    }

    /// The client gets no more events.
    pub(super) fn leave(&self, number: u64) {
        let mut inner = self.inner();
        inner.members.remove(&number);
        inner.shown.leave(number);
    }

    /// The last event that was passed on.
    pub(super) fn position(&self) -> u64 {
        self.inner().position
    }

    /// Why nothing runs; `None` while something runs.
    pub(super) fn idle(&self) -> Option<IdleState> {
        self.inner().idle.clone()
    }

    /// Sends every client a message that is no event of the journal.
    pub(super) fn broadcast(&self, text: &Utf8Bytes) {
        for member in self.inner().members.values() {
            member.outbox.push(text.clone());
        }
    }

    /// Whether a client follows the view.
    pub(super) fn has_followers(&self) -> bool {
        self.inner().shown.has_followers()
    }

    /// Sends the clients that follow the view a message that is no event of the journal.
    pub(super) fn send_followers(&self, text: &Utf8Bytes) {
        self.inner().shown.broadcast(text);
    }

    /// Passes events on until the manager has stopped, and patches of the view at their pace (WIRE-40).
    ///
    /// # Errors
    ///
    /// [`IoError`] when events were missed and cannot be read again: the clients must not continue without them.
    pub(super) async fn run(&self, mut events: Subscription, replies: &Replies) -> Result<(), IoError> {
        let mut pace = PatchPace::default();
        loop {
            let due = pace.due.unwrap_or_else(Instant::now);
            // Both arms are cancel safe: an event leaves the subscription only when it is returned.
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(due), if pace.due.is_some() => {
                    pace.due = None;
                    self.inner().shown.patch(replies);
                }
                delivery = events.next() => match delivery? {
                    Some(Delivery::Events(events)) => {
                        if pace.sends_now(self.send_events(&events), Instant::now()) {
                            self.inner().shown.patch(replies);
                        }
                    }
                    Some(Delivery::Lagged) => tracing::debug!("the hub is behind and reads the journal"),
                    None => {
                        self.inner().shown.patch(replies);
                        return Ok(());
                    }
                },
            }
        }
    }

    /// Sends events that another process has recorded, with one patch of the view.
    pub(super) fn send_recorded(&self, events: &Events, replies: &Replies) {
        self.send_events(events);
        self.inner().shown.patch(replies);
    }

    /// Notes that no process works on the run any more. Does nothing if the run has ended.
    pub(super) fn mark_crashed(&self, heartbeat: Option<Timestamp>, replies: &Replies) {
        self.inner().shown.mark_crashed(heartbeat, replies);
    }

    /// Whether the run has started and not ended.
    pub(super) fn is_open(&self) -> bool {
        self.inner().shown.is_open()
    }

    /// Passes events on. Returns whether the state of the run has changed with them.
    fn send_events(&self, events: &Events) -> bool {
        let mut inner = self.inner();
        let before = inner.shown.state();
        for line in events.lines() {
            inner.apply(line);
        }
        let changed = inner.shown.state() != before;
        if inner.members.is_empty() {
            return changed;
        }
        for line in events.lines() {
            let text = Utf8Bytes::from(line.text());
            for member in inner.members.values().filter(|member| member.after < line.seq()) {
                // A full outbox is noticed by the client's own task.
                member.outbox.push(text.clone());
            }
        }
        changed
    }

    fn inner(&self) -> MutexGuard<'_, HubState> {
        // Every change is complete when the lock is released.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HubState {
    /// Applies an event to the position, the view and the idle state.
    fn apply(&mut self, line: BatchLine<'_>) {
        self.position = line.seq();
        self.shown.take(line.value());
        match line.kind() {
            Event::STATE_TRANSITION => self.idle = None,
            Event::SERVER_IDLE => {
                if let Some(Event::ServerIdle { reason, message }) = line.entry().map(|entry| entry.event) {
                    self.idle = Some(IdleState { reason, message });
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use hankweave_core::id::EventId;
    use hankweave_core::time::Timestamp;
    use hankweave_core::wire::JournalEntry;

    use super::super::outbox::Dequeued;
    use super::*;
    use crate::journal::Batch;

    fn event(seq: u64) -> Events {
        let entry = JournalEntry {
            seq,
            id: EventId::new("e").unwrap(),
            timestamp: Timestamp::UNIX_EPOCH,
            event: Event::Info {
                message: String::new(),
            },
        };
        Events::after(Arc::new(Batch::new(&[entry])), 0)
    }

    fn numbers(outbox: &Outbox) -> Vec<u64> {
        let mut found = Vec::new();
        while let Dequeued::Message(text) = outbox.take() {
            let entry: JournalEntry = serde_json::from_str(&text).unwrap();
            found.push(entry.seq);
        }
        found
    }

    // covers: WIRE-40
    #[test]
    fn patches_keep_their_pace() {
        let (begin, mut pace) = (Instant::now(), PatchPace::default());
        let at = |millis| begin + Duration::from_millis(millis);
        assert!(!pace.sends_now(false, at(0)));
        assert!(!pace.sends_now(false, at(90)));
        assert_eq!(
            pace.due,
            Some(at(100)),
            "a tenth of a second after the first change"
        );
        assert!(pace.sends_now(true, at(95)));
        assert_eq!(pace.due, None, "nothing is left to send");
        assert!(!pace.sends_now(false, at(96)));
        assert_eq!(pace.due, Some(at(196)));
    }

    // covers: WIRE-4
    #[test]
    fn a_client_joins_between_two_events_and_misses_and_doubles_none() {
        let hub = Hub::new(4, RunView::default());
        let outbox = || Arc::new(Outbox::new(10, 1_000));
        let (first, late, ahead) = (outbox(), outbox(), outbox());
        assert_eq!(hub.join(1, &first), 4);
        hub.send_events(&event(5));
        assert!(!hub.join_after(2, &late, 4), "event 5 has been handed out");
        assert!(hub.join_after(2, &late, 5));
        // The journal was read further than the hub has come.
        assert!(hub.join_after(3, &ahead, 7));
        for seq in 6..=8 {
            hub.send_events(&event(seq));
        }
        hub.leave(1);
        hub.send_events(&event(9));
        assert_eq!(numbers(&first), [5, 6, 7, 8]);
        assert_eq!(numbers(&late), [6, 7, 8, 9]);
        assert_eq!(numbers(&ahead), [8, 9]);
        assert_eq!(hub.position(), 9);
    }
}
