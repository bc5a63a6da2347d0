//! Subscriptions to published events: the newest ones come from memory, older ones from the journal.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hankweave_core::wire::JournalEntry;
use tokio::sync::watch;

use crate::journal::{Batch, BatchLine, EventJournal, PageLimit};
use crate::world::blocking::Blocking;
use crate::world::disk::IoError;

/// Number of bytes of published events that stay in memory; a subscriber that needs older events reads the journal.
const RECENT_BYTES: usize = 8 << 20;

/// The events that were published last, shared by all subscribers.
#[derive(Debug)]
pub(super) struct Recent(Mutex<RecentState>);

#[derive(Debug)]
struct RecentState {
    /// The number of the last event that was dropped from memory.
    forgotten: u64,
    /// Oldest first.
    batches: VecDeque<Arc<Batch>>,
    /// Approximate memory of `batches`.
    bytes: usize,
}

/// Events after a subscriber's position.
enum NextEvents {
    Events(Events),
    /// No event was published after the position.
    Nothing,
    /// The next event is only in the journal, and so are all events up to this number.
    Forgotten(u64),
}

impl Recent {
    /// Returns an empty memory; all events up to number `seq` are only in the journal.
    pub(super) fn after_seq(seq: u64) -> Self {
        Self(Mutex::new(RecentState {
            forgotten: seq,
            batches: VecDeque::new(),
            bytes: 0,
        }))
    }

    /// Adds a batch, and drops the oldest batches beyond the limit; the newest batch stays, however large.
    pub(super) fn push(&self, batch: Arc<Batch>) {
        let mut state = self.lock();
        state.bytes += batch.bytes();
        state.batches.push_back(batch);
        while state.bytes > RECENT_BYTES
            && state.batches.len() > 1
            && let Some(oldest) = state.batches.pop_front()
        {
            state.bytes -= oldest.bytes();
            state.forgotten = oldest.last_seq();
        }
    }

    fn after(&self, position: u64) -> NextEvents {
        let state = self.lock();
        if position < state.forgotten {
            return NextEvents::Forgotten(state.forgotten);
        }
        let next = state
            .batches
            .partition_point(|batch| batch.last_seq() <= position);
        match state.batches.get(next) {
            Some(batch) => NextEvents::Events(Events::after(Arc::clone(batch), position)),
            None => NextEvents::Nothing,
        }
    }

    fn lock(&self) -> MutexGuard<'_, RecentState> {
        // No change of the state panics halfway, so it is whole also after a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Every event after a point in history, in order and without gaps: first from the journal, then live.
///
/// The manager never waits for a subscriber. A subscriber that is too slow gets [`Delivery::Lagged`], and then the missed
/// events from the journal.
#[derive(Debug)]
pub struct Subscription {
    recent: Arc<Recent>,
    /// The number of the last published event. Changes once for events that were published together, so that they cost one wake-up.
    published: watch::Receiver<u64>,
    journal: Arc<dyn EventJournal>,
    blocking: Blocking,
    /// The `seq` of the last event that was returned.
    position: u64,
    /// Whether the subscription reads the journal. The subscriber was notified with [`Delivery::Lagged`], unless this is the start.
    behind: bool,
}

/// Events for a subscriber, as values and as lines of the journal. Cheap to clone.
#[derive(Debug, Clone, PartialEq)]
pub struct Events {
    batch: Arc<Batch>,
    /// Index of the first event; the subscriber has seen those before.
    from: usize,
}

impl Events {
    /// The events after number `after`.
    pub(crate) fn after(batch: Arc<Batch>, after: u64) -> Self {
        let from = batch.count_until(after);
        Self { batch, from }
    }

    /// Returns references to the events, oldest first.
    pub fn values(&self) -> impl Iterator<Item = &JournalEntry> {
        self.lines().map(BatchLine::value)
    }

    /// Returns copies of the events, oldest first. To pick a few of many, filter [`values`](Self::values) first.
    pub fn entries(&self) -> impl Iterator<Item = JournalEntry> {
        self.values().cloned()
    }

    /// The line of each event, oldest first.
    pub fn lines(&self) -> impl Iterator<Item = BatchLine<'_>> {
        (self.from..self.batch.len()).map(|index| self.batch.line(index))
    }

    /// All lines, each with its newline.
    #[must_use]
    pub fn text(&self) -> &str {
        self.batch.text_from(self.from)
    }
}

/// Item for a subscriber.
#[derive(Debug, Clone, PartialEq)]
pub enum Delivery {
    /// The next events, at least one.
    Events(Events),
    /// The subscriber was too slow; the following events come from the journal until it has caught up.
    Lagged,
}

impl Subscription {
    pub(super) fn new(
        recent: Arc<Recent>,
        published: watch::Receiver<u64>,
        journal: Arc<dyn EventJournal>,
        blocking: Blocking,
        position: u64,
    ) -> Self {
        Self {
            recent,
            published,
            journal,
            blocking,
            position,
            behind: true,
        }
    }

    /// Waits for the next events; `None` once the manager has stopped and everything was returned.
    ///
    /// # Errors
    ///
    /// [`IoError`] when events cannot be read from the journal. A later call tries again.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the position changes only when events are returned.
    pub async fn next(&mut self) -> Result<Option<Delivery>, IoError> {
        let mut ended = false;
        loop {
            match self.recent.after(self.position) {
                NextEvents::Events(events) => {
                    self.behind = false;
                    return Ok(Some(self.deliver(events)));
                }
                NextEvents::Forgotten(_) if !self.behind => {
                    self.behind = true;
                    return Ok(Some(Delivery::Lagged));
                }
                // The journal is only read for events that are no longer in memory: decoding it is slower than writing it, so a reader of
                // the journal alone would never catch up.
                NextEvents::Forgotten(until) => match self.read_journal().await? {
                    Some(missed) => return Ok(Some(self.deliver(missed))),
                    // The journal has no events up to that number, such as after a gap in the numbers.
                    None => self.position = until,
                },
                NextEvents::Nothing if ended => return Ok(None),
                // The channel closes when the manager has ended, after its last events. They are looked for once more then.
                NextEvents::Nothing => {
                    self.behind = false;
                    ended = self.published.changed().await.is_err();
                }
            }
        }
    }

    fn deliver(&mut self, events: Events) -> Delivery {
        self.position = events.batch.last_seq();
        Delivery::Events(events)
    }

    /// Returns the events of the next page of the journal; `None` when the journal has no more.
    async fn read_journal(&mut self) -> Result<Option<Events>, IoError> {
        let (journal, position) = (Arc::clone(&self.journal), self.position);
        let page = self
            .blocking
            .run(move || journal.read_after(position, PageLimit::CLIENT))
            .await?;
        let found = !page.entries.is_empty();
        Ok(found.then(|| Events::after(Arc::new(Batch::of(page.entries)), position)))
    }
}

#[cfg(test)]
mod tests {
    use hankweave_core::id::EventId;
    use hankweave_core::time::Timestamp;
    use hankweave_core::wire::Event;

    use super::*;

    fn batch(seq: u64, bytes: usize) -> Arc<Batch> {
        let entry = JournalEntry {
            seq,
            id: EventId::new("e").unwrap(),
            timestamp: Timestamp::UNIX_EPOCH,
            event: Event::Info {
                message: "x".repeat(bytes),
            },
        };
        Arc::new(Batch::new(&[entry]))
    }

    #[test]
    fn the_newest_batch_is_kept_however_large_until_the_next_one() {
        let recent = Recent::after_seq(0);
        recent.push(batch(1, 10));
        assert!(matches!(recent.after(0), NextEvents::Events(_)));
        recent.push(batch(2, RECENT_BYTES));
        assert!(matches!(recent.after(0), NextEvents::Forgotten(1)));
        assert!(
            matches!(recent.after(1), NextEvents::Events(events) if events.lines().next().is_some_and(|line| line.seq() == 2))
        );
        recent.push(batch(3, 10));
        assert!(matches!(recent.after(1), NextEvents::Forgotten(2)));
        assert!(matches!(recent.after(2), NextEvents::Events(_)));
        assert!(matches!(recent.after(3), NextEvents::Nothing));
    }
}
