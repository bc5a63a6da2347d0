//! Following the events as they become durable.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hankweave_core::wire::JournalEntry;
use tokio::sync::watch;

use crate::journal::{Batch, BatchLine, EventJournal, PageLimit};
use crate::world::blocking::Blocking;
use crate::world::disk::IoError;

/// How many bytes of published events stay in memory; a subscriber that is further after reads the journal.
const RECENT_BYTES: usize = 8 << 20;

/// The events that were published last, shared by all subscribers.
#[derive(Debug)]
pub(super) struct Recent(Mutex<RecentState>);

#[derive(Debug)]
struct RecentState {
    /// The number of the last event that was dropped from memory.
    forgotten: u64,
    batches: VecDeque<Arc<Batch>>,
    bytes: usize,
}

/// Events after a subscriber's position.
enum NextEvents {
    Events(Events),
    Nothing,
    /// The next event is only in the journal, as are all with a number up to this one.
    Forgotten(u64),
}

impl Recent {
    /// Everything up to number `seq` is in the journal.
    pub(super) fn after_seq(seq: u64) -> Self {
        Self(Mutex::new(RecentState {
            forgotten: seq,
            batches: VecDeque::new(),
            bytes: 0,
        }))
    }

    /// Adds a batch and drops the oldest ones beyond the limit; the newest one stays, however large.
    pub(super) fn push(&self, batch: Arc<Batch>) {
        let mut latest = self.latest();
        latest.bytes += batch.bytes();
        latest.batches.push_back(batch);
        while latest.bytes > RECENT_BYTES
            && latest.batches.len() > 1
            && let Some(oldest) = latest.batches.pop_front()
        {
            latest.bytes -= oldest.bytes();
            latest.forgotten = oldest.last_seq();
        }
    }

    fn after(&self, position: u64) -> NextEvents {
        let latest = self.latest();
        if position < latest.forgotten {
            return NextEvents::Forgotten(latest.forgotten);
        }
        let next = latest
            .batches
            .partition_point(|batch| batch.last_seq() <= position);
        match latest.batches.get(next) {
            Some(batch) => NextEvents::Events(Events::after(Arc::clone(batch), position)),
            None => NextEvents::Nothing,
        }
    }

    fn latest(&self) -> MutexGuard<'_, RecentState> {
        // Nothing in here panics halfway.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Every event after a point in history, in order and without gaps: first from the journal, then live.
///
/// The manager never waits for a subscriber. One that is too slow gets [`Delivery::Lagged`], and then what it
/// missed from the journal.
#[derive(Debug)]
pub struct Subscription {
    recent: Arc<Recent>,
    /// Changes once for events that were published together, so that they cost one wake-up.
    published: watch::Receiver<u64>,
    journal: Arc<dyn EventJournal>,
    blocking: Blocking,
    /// The `seq` of the last event that was returned.
    position: u64,
    /// Whether it reads the journal. The subscriber was notified of that, unless it has just begun.
    behind: bool,
}

/// Events that a subscriber has not seen before, as values and with the lines that the journal has of them. Cheap to clone.
#[derive(Debug, Clone, PartialEq)]
pub struct Events {
    batch: Arc<Batch>,
    /// Earlier entries have been seen.
    from: usize,
}

impl Events {
    /// The events after number `after`.
    pub(crate) fn after(batch: Arc<Batch>, after: u64) -> Self {
        let from = batch.count_until(after);
        Self { batch, from }
    }

    /// The events, oldest first: those that were published, and no copies.
    pub fn values(&self) -> impl Iterator<Item = &JournalEntry> {
        self.lines().map(BatchLine::value)
    }

    /// Returns copies of the events, oldest first. To pick a few of many, filter [`values`](Self::values) first.
    pub fn entries(&self) -> impl Iterator<Item = JournalEntry> {
        self.values().cloned()
    }

    /// The line of each.
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
    /// [`IoError`] when missed events cannot be read. A later call tries again.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: an event counts as given out only when it is returned.
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
                // Only for events that are no longer in memory: a reader that decodes the journal is slower than its
                // writer, and would never catch up.
                NextEvents::Forgotten(until) => match self.read_on().await? {
                    Some(missed) => return Ok(Some(self.deliver(missed))),
                    None => self.position = until,
                },
                NextEvents::Nothing if ended => return Ok(None),
                // The manager's end closes this, after its last events.
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

    /// The next page of the journal; `None` when it has nothing more.
    async fn read_on(&mut self) -> Result<Option<Events>, IoError> {
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
