//! From the log into the journal and to the subscribers, beside the writer: it hands over what it accepted and goes on.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hankweave_core::event::StateEvent;
use hankweave_core::time::Timestamp;
use hankweave_core::wire::{CurrentFigures, Event, JournalEntry};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::actor::{Reply, answer, refuse};
use super::degraded::Degraded;
use super::load::SEQ_GAP;
use super::publish::Recent;
use super::{Parts, PersistenceError, Receipt};
use crate::journal::{Batch, JournalError, state_event_id};

/// How long the journal may lack the sync (D5).
const PATIENCE: Duration = Duration::from_millis(200);

/// Batches that may wait for the journal before the writer waits as well.
const LETTERS: usize = 2;

/// What the writer sends.
pub(super) enum Letter {
    /// Accepted events, in the order of their numbers.
    News(Vec<Item>),
    /// Asks for the journal to be durable up to here.
    Sync(oneshot::Sender<Result<(), Arc<PersistenceError>>>),
}

/// The writer's way to the [`Journalist`].
#[derive(Debug, Clone)]
pub(super) struct Letters(mpsc::Sender<Letter>);

impl Letters {
    /// Hands over accepted events; waits while too many are on their way.
    pub(super) async fn tell(&self, news: Vec<Item>) {
        // The journalist outlives the writer unless it has panicked, which the writer passes on when it ends.
        let _ = self.0.send(Letter::News(news)).await;
    }

    /// Makes everything durable in the journal that was handed over before.
    ///
    /// # Errors
    ///
    /// [`PersistenceError::Journal`].
    pub(super) async fn sync(&self) -> Result<(), Arc<PersistenceError>> {
        let (reply, synced) = oneshot::channel();
        let _ = self.0.send(Letter::Sync(reply)).await;
        match synced.await {
            Ok(synced) => synced,
            Err(_) => std::future::pending().await,
        }
    }
}

/// The task that brings accepted events into the journal and publishes them.
#[derive(Debug)]
pub(super) struct Journalist {
    journaling: Journaling,
    letters: mpsc::Receiver<Letter>,
    /// Work on the journal that can wait, in progress.
    tidying: Tidying,
    /// The number of the last event that was published.
    told: watch::Sender<u64>,
    degraded: Degraded,
}

impl Journalist {
    pub(super) fn new(
        parts: Parts,
        recent: Arc<Recent>,
        told: watch::Sender<u64>,
        degraded: Degraded,
    ) -> (Self, Letters) {
        let (sender, letters) = mpsc::channel(LETTERS);
        let journaling = Journaling::new(parts, recent);
        let journalist = Self {
            journaling,
            letters,
            tidying: Tidying(None),
            told,
            degraded,
        };
        (journalist, Letters(sender))
    }

    /// Works until every [`Letters`] is dropped and read. What can wait is then left to another time.
    pub(super) async fn run(mut self) {
        loop {
            tokio::select! {
                biased;
                synced = self.journaling.synced() => self.heed(synced),
                () = self.tidying.end() => {}
                letter = self.letters.recv() => match letter {
                    Some(Letter::News(news)) => self.tell(news),
                    Some(Letter::Sync(reply)) => {
                        // Whoever asked may have run out of time.
                        let _ = reply.send(self.sync());
                    }
                    None => return,
                },
            }
        }
    }

    fn tell(&mut self, news: Vec<Item>) {
        if let Some(error) = self.degraded.failure() {
            // State events among them are durable in the log; the next start brings them into the journal.
            return refuse(waiting(news), &error);
        }
        let told = self.journaling.tell(news);
        self.heed(told.map(|last| {
            self.told.send_replace(last);
        }));
        self.tidying.begin(&self.journaling.parts);
    }

    /// Makes everything durable, which is more than what is in the file: an event that the journal refused is not.
    fn sync(&mut self) -> Result<(), Arc<PersistenceError>> {
        match self.degraded.failure() {
            Some(error) => Err(error),
            None => self.journaling.sync(),
        }
    }

    /// Stops all recording after a journal that failed.
    fn heed(&self, done: Result<(), Arc<PersistenceError>>) {
        if let Err(error) = done {
            self.degraded.note(error);
        }
    }
}

/// Tidying the journal on another thread, while it is in progress.
struct Tidying(Option<BoxFuture<'static, ()>>);

impl Tidying {
    fn begin(&mut self, parts: &Parts) {
        if self.0.is_none() && parts.journal.is_untidy() {
            let journal = Arc::clone(&parts.journal);
            self.0 = Some(Box::pin(parts.blocking.run(move || journal.tidy())));
        }
    }

    /// Waits for the end of what is in progress.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it stays in progress.
    async fn end(&mut self) {
        match &mut self.0 {
            Some(work) => work.await,
            None => std::future::pending().await,
        }
        self.0 = None;
    }
}

impl fmt::Debug for Tidying {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tidying").field(&self.0.is_some()).finish()
    }
}

/// Brings accepted events into the journal in the order of their numbers, then publishes them.
struct Journaling {
    parts: Parts,
    recent: Arc<Recent>,
    sync_due: Option<Instant>,
    syncing: Option<Sync>,
    /// Events in a row that neither the log nor a sync of the journal made durable.
    unsynced: u64,
}

/// A sync in progress.
struct Sync {
    work: BoxFuture<'static, Result<(), JournalError>>,
    /// How many of the unsynced events it makes durable.
    covers: u64,
}

/// One or more accepted events of the same time, on their way into the journal.
#[derive(Debug)]
pub(super) struct Item {
    /// The number of the first one.
    pub(super) seq: u64,
    pub(super) at: Timestamp,
    pub(super) content: Content,
}

/// What happened.
#[derive(Debug)]
pub(super) enum Content {
    /// The document changed: the event, durable in the log, and the figures after it.
    Transition(Box<StateEvent>, CurrentFigures),
    /// Something else, and who waits until it is in the journal.
    Others(Vec<Event>, Option<Reply>),
}

/// Those who wait until their event is in the journal.
pub(super) fn waiting(news: Vec<Item>) -> impl Iterator<Item = Reply> {
    news.into_iter().filter_map(|item| match item.content {
        Content::Transition(..) => None,
        Content::Others(_, reply) => reply,
    })
}

impl Journaling {
    fn new(parts: Parts, recent: Arc<Recent>) -> Self {
        Self {
            parts,
            recent,
            sync_due: None,
            syncing: None,
            unsynced: 0,
        }
    }

    /// Journals and publishes, and returns the last number; whoever waits for the journal is told.
    ///
    /// # Errors
    ///
    /// [`PersistenceError::Journal`]: nothing was published. State events are durable in the log and reach the journal at
    /// the next start.
    fn tell(&mut self, news: Vec<Item>) -> Result<u64, Arc<PersistenceError>> {
        let mut batch = Batch::default();
        let mut push = |seq, id, timestamp, event| {
            let entry = JournalEntry {
                seq,
                id,
                timestamp,
                event,
            };
            if let Err(error) = batch.push(&entry) {
                tracing::error!(%error, seq, "an event is no text; please report this bug");
            }
        };
        let mut replies = Vec::new();
        for Item { seq, at, content } in news {
            match content {
                Content::Transition(event, figures) => {
                    self.unsynced = 0;
                    let id = state_event_id(seq, at, &event, &figures);
                    push(seq, id, at, Event::state_transition(event, figures));
                }
                Content::Others(events, reply) => {
                    self.unsynced += events.len() as u64;
                    replies.extend(reply.map(|reply| (reply, Receipt { seq, at })));
                    for (seq, event) in (seq..).zip(events) {
                        push(seq, self.parts.ids.event_id(), at, event);
                    }
                }
            }
        }
        if let Err(error) = self.append(&batch) {
            let error = failed(error);
            refuse(replies.into_iter().map(|(reply, _)| reply), &error);
            return Err(error);
        }
        for (reply, receipt) in replies {
            answer(reply, Ok(receipt));
        }
        let last = batch.last_seq();
        self.recent.push(Arc::new(batch));
        Ok(last)
    }

    fn append(&mut self, batch: &Batch) -> Result<(), JournalError> {
        self.parts.journal.append(batch)?;
        self.sync_due.get_or_insert_with(|| Instant::now() + PATIENCE);
        if self.unsynced > SEQ_GAP {
            // Numbers that subscribers have seen must not be given out again after a crash.
            self.unsynced = 0;
            self.parts.journal.sync()?;
        }
        Ok(())
    }

    /// Waits until the journal was due and has been synced, beside the stream of events.
    ///
    /// # Errors
    ///
    /// [`PersistenceError::Journal`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a sync stays in progress.
    async fn synced(&mut self) -> Result<(), Arc<PersistenceError>> {
        let syncing = match (&mut self.syncing, self.sync_due) {
            (Some(syncing), _) => syncing,
            (None, Some(due)) => {
                tokio::time::sleep_until(due).await;
                self.sync_due = None;
                let journal = Arc::clone(&self.parts.journal);
                let work = Box::pin(self.parts.blocking.run(move || journal.sync()));
                let covers = self.unsynced;
                self.syncing.insert(Sync { work, covers })
            }
            (None, None) => return std::future::pending().await,
        };
        let (synced, covers) = ((&mut syncing.work).await, syncing.covers);
        self.syncing = None;
        self.unsynced = self.unsynced.saturating_sub(covers);
        synced.map_err(failed)
    }

    /// Makes everything in the journal durable.
    ///
    /// # Errors
    ///
    /// [`PersistenceError::Journal`].
    fn sync(&mut self) -> Result<(), Arc<PersistenceError>> {
        self.sync_due = None;
        self.unsynced = 0;
        self.parts.journal.sync().map_err(failed)
    }
}

impl fmt::Debug for Journaling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journaling")
            .field("sync_due", &self.sync_due)
            .field("syncing", &self.syncing.is_some())
            .field("unsynced", &self.unsynced)
            .finish_non_exhaustive()
    }
}

fn failed(error: JournalError) -> Arc<PersistenceError> {
    Arc::new(PersistenceError::Journal(error))
}
