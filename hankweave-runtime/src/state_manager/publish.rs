//! Following the events as they become durable.

use std::collections::VecDeque;
use std::sync::Arc;

use hankweave_core::wire::JournalEntry;
use tokio::sync::broadcast::{self, error::TryRecvError};
use tokio::sync::watch;

use crate::journal::{EventJournal, JournalError, PageLimit};
use crate::world::blocking::Blocking;

/// Every event behind a point in history, in order and without gaps: first from the journal, then live.
///
/// The manager never waits for a subscriber. One that is too slow is told so and gets what it missed from the journal.
#[derive(Debug)]
pub struct Subscription {
    live: broadcast::Receiver<Arc<JournalEntry>>,
    /// Changes behind events that were published together, so that they cost one wake-up.
    told: watch::Receiver<u64>,
    journal: Arc<dyn EventJournal>,
    blocking: Blocking,
    /// The `seq` of the last event given out.
    position: u64,
    /// Read from the journal and not given out yet.
    backlog: VecDeque<Arc<JournalEntry>>,
    /// The journal has events that were neither received live nor read.
    behind: bool,
}

/// What a subscriber gets.
#[derive(Debug, Clone, PartialEq)]
pub enum Delivery {
    /// The next event.
    Event(Arc<JournalEntry>),
    /// The subscriber was too slow; the following events come from the journal until it has caught up.
    Lagged,
}

impl Subscription {
    pub(super) fn new(
        live: broadcast::Receiver<Arc<JournalEntry>>,
        told: watch::Receiver<u64>,
        journal: Arc<dyn EventJournal>,
        blocking: Blocking,
        position: u64,
    ) -> Self {
        Self {
            live,
            told,
            journal,
            blocking,
            position,
            backlog: VecDeque::new(),
            behind: true,
        }
    }

    /// Waits for the next event; `None` once the manager has stopped and everything was given out.
    ///
    /// # Errors
    ///
    /// [`JournalError`] when missed events cannot be read. A later call tries again.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: an event counts as given out only when it is returned.
    pub async fn next(&mut self) -> Result<Option<Delivery>, JournalError> {
        loop {
            if let Some(entry) = self.backlog.pop_front() {
                return Ok(Some(self.deliver(entry)));
            }
            if self.behind {
                self.read_on().await?;
                continue;
            }
            match self.live.try_recv() {
                Ok(entry) if entry.seq <= self.position => {}
                Ok(entry) => return Ok(Some(self.deliver(entry))),
                Err(TryRecvError::Lagged(_)) => {
                    self.behind = true;
                    return Ok(Some(Delivery::Lagged));
                }
                // The manager's end closes both, this one after the events.
                Err(TryRecvError::Empty) => drop(self.told.changed().await),
                Err(TryRecvError::Closed) => return Ok(None),
            }
        }
    }

    fn deliver(&mut self, entry: Arc<JournalEntry>) -> Delivery {
        self.position = entry.seq;
        Delivery::Event(entry)
    }

    async fn read_on(&mut self) -> Result<(), JournalError> {
        let (journal, position) = (Arc::clone(&self.journal), self.position);
        let page = self
            .blocking
            .run(move || journal.read_after(position, PageLimit::CLIENT))
            .await?;
        self.behind = page.more;
        self.backlog = page.entries.into();
        Ok(())
    }
}
