//! The journal writer: the task that writes accepted events into the journal and publishes them, while the writer continues. It syncs
//! the journal some time later.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hankweave_core::event::StateEvent;
use hankweave_core::time::Timestamp;
use hankweave_core::wire::{CurrentFigures, Event, JournalEntry};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::degraded::Degraded;
use super::publish::Recent;
use super::request::{Receipt, TransitionReply, answer, refuse};
use super::{PersistenceError, StateManagerParts};
use crate::journal::{Batch, state_event_id};
use crate::world::disk::IoError;

/// How long the journal may stay without a sync (D5).
const SYNC_DELAY: Duration = Duration::from_millis(200);

/// Maximum number of waiting requests; then the writer waits as well.
const QUEUE: usize = 2;

/// Number of event numbers that a start skips after an unclean end: subscribers may have seen events that the end took from the journal, and no number
/// may be used for two events (P2). So a sync is forced before more events than this are published without one. The gap is larger than what an agent can
/// print between two syncs of a working disk, so that normally no sync is forced.
pub(super) const SEQ_GAP: u64 = 100_000;

/// Request of the writer to the [`JournalWriter`].
pub(super) enum JournalRequest {
    /// Write and publish accepted events, in the order of their numbers.
    Append(Vec<JournalItem>),
    /// Make all earlier events durable in the journal.
    Sync(oneshot::Sender<Result<(), Arc<PersistenceError>>>),
}

/// The queue of requests to the [`JournalWriter`].
#[derive(Debug, Clone)]
pub(super) struct JournalQueue(mpsc::Sender<JournalRequest>);

impl JournalQueue {
    /// Queues accepted events; waits while the queue is full.
    pub(super) async fn append(&self, items: Vec<JournalItem>) {
        // Sending fails only if the journal writer has panicked, and its panic is passed on at the end.
        let _ = self.0.send(JournalRequest::Append(items)).await;
    }

    /// Makes all events durable in the journal that were queued before.
    ///
    /// # Errors
    ///
    /// [`PersistenceError::Journal`].
    pub(super) async fn sync(&self) -> Result<(), Arc<PersistenceError>> {
        let (reply, synced) = oneshot::channel();
        let _ = self.0.send(JournalRequest::Sync(reply)).await;
        match synced.await {
            Ok(synced) => synced,
            // The journal writer has panicked, and its panic is passed on at the end.
            Err(_) => std::future::pending().await,
        }
    }
}

/// Writes accepted events into the journal in the order of their numbers, then publishes them.
pub(super) struct JournalWriter {
    parts: StateManagerParts,
    recent: Arc<Recent>,
    requests: mpsc::Receiver<JournalRequest>,
    sync: LazySync,
    /// Removal of old output from the journal, if one is in progress on another thread.
    tidying: Option<BoxFuture<'static, ()>>,
    /// The number of the last event that was published.
    published: watch::Sender<u64>,
    degraded: Degraded,
}

/// Syncs the journal some time after it was written to.
#[derive(Default)]
struct LazySync {
    /// When the next sync is due; `None` if nothing was written since the last one.
    due: Option<Instant>,
    /// The sync in progress, and the number of events that it makes durable.
    work: Option<(BoxFuture<'static, Result<(), IoError>>, u64)>,
    /// Number of events since the last state event or the start of the last sync, whichever was later: a crash could take these, and with them their
    /// numbers. A state event in the log keeps its number and all earlier ones safe.
    unsynced: u64,
}

/// One accepted event on its way into the journal.
#[derive(Debug)]
pub(super) struct JournalItem {
    pub(super) seq: u64,
    pub(super) at: Timestamp,
    pub(super) content: ItemContent,
}

/// Content of a [`JournalItem`].
#[derive(Debug)]
pub(super) enum ItemContent {
    /// A state event, which is durable in the log already, and the figures after it.
    Transition(Box<StateEvent>, CurrentFigures),
    /// Another event; its sender waits until the event is in the journal.
    Other(Box<Event>, TransitionReply),
}

/// Returns the replies to senders that wait until their events are in the journal.
pub(super) fn waiting(items: Vec<JournalItem>) -> impl Iterator<Item = TransitionReply> {
    items.into_iter().filter_map(|item| match item.content {
        ItemContent::Transition(..) => None,
        ItemContent::Other(_, reply) => Some(reply),
    })
}

impl JournalWriter {
    pub(super) fn new(
        parts: StateManagerParts,
        recent: Arc<Recent>,
        published: watch::Sender<u64>,
        degraded: Degraded,
    ) -> (Self, JournalQueue) {
        let (sender, requests) = mpsc::channel(QUEUE);
        let writer = Self {
            parts,
            recent,
            requests,
            sync: LazySync::default(),
            tidying: None,
            published,
            degraded,
        };
        (writer, JournalQueue(sender))
    }

    /// Works until every [`JournalQueue`] is dropped and the queue is empty. A removal of old output that is then in progress is
    /// finished by a later process.
    pub(super) async fn run(mut self) {
        loop {
            // Every arm is cancel safe: work in progress continues.
            tokio::select! {
                biased;
                synced = self.sync.done(&self.parts) => self.note(synced),
                () = in_progress(&mut self.tidying) => self.tidying = None,
                request = self.requests.recv() => match request {
                    Some(JournalRequest::Append(items)) => self.append(items),
                    Some(JournalRequest::Sync(reply)) => {
                        let synced = match self.degraded.failure() {
                            Some(error) => Err(error),
                            None => self.sync.now(&self.parts).map_err(failed),
                        };
                        // The caller may have run out of time.
                        let _ = reply.send(synced);
                    }
                    None => return,
                },
            }
        }
    }

    /// Writes and publishes events, and starts the removal of old output if the journal is too large.
    fn append(&mut self, items: Vec<JournalItem>) {
        if let Some(error) = self.degraded.failure() {
            // The state events among the items are durable in the log; the next start adds them to the journal.
            return refuse(waiting(items), &error);
        }
        let published = self.publish(items);
        self.note(published);
        if self.tidying.is_none() && self.parts.journal.is_untidy() {
            let journal = Arc::clone(&self.parts.journal);
            self.tidying = Some(Box::pin(self.parts.blocking.run(move || journal.tidy())));
        }
    }

    /// Degrades the manager if the journal failed: then nothing more is recorded.
    fn note(&self, result: Result<(), Arc<PersistenceError>>) {
        if let Err(error) = result {
            self.degraded.note(error);
        }
    }

    /// Writes events into the journal, answers their senders, and publishes them.
    ///
    /// # Errors
    ///
    /// [`PersistenceError::Journal`]: nothing was published. State events are durable in the log and reach the
    /// journal at the next start.
    fn publish(&mut self, items: Vec<JournalItem>) -> Result<(), Arc<PersistenceError>> {
        let (mut batch, mut replies) = (Batch::default(), Vec::new());
        for JournalItem { seq, at, content } in items {
            let (id, event) = match content {
                ItemContent::Transition(event, figures) => {
                    // A start continues after the highest number in the log, so earlier numbers are safe.
                    self.sync.unsynced = 0;
                    let id = state_event_id(seq, at, &event, &figures);
                    (id, Event::state_transition(event, figures))
                }
                ItemContent::Other(event, reply) => {
                    self.sync.unsynced += 1;
                    replies.push((reply, Receipt { seq, at }));
                    (self.parts.ids.event_id(), *event)
                }
            };
            let entry = JournalEntry {
                seq,
                id,
                timestamp: at,
                event,
            };
            if let Err(error) = batch.push(entry) {
                tracing::error!(%error, seq, "an event is no text; please report this bug");
            }
        }
        if let Err(error) = self.sync.append(&self.parts, &batch) {
            let error = failed(error);
            refuse(replies.into_iter().map(|(reply, _)| reply), &error);
            return Err(error);
        }
        for (reply, receipt) in replies {
            answer(reply, Ok(receipt));
        }
        let last = batch.last_seq();
        self.recent.push(Arc::new(batch));
        self.published.send_replace(last);
        Ok(())
    }
}

impl LazySync {
    /// Appends to the journal, and makes a sync due.
    fn append(&mut self, parts: &StateManagerParts, batch: &Batch) -> Result<(), IoError> {
        parts.journal.append(batch)?;
        self.due.get_or_insert_with(|| Instant::now() + SYNC_DELAY);
        let in_progress = self.work.as_ref().map_or(0, |(_, covers)| *covers);
        if self.unsynced + in_progress > SEQ_GAP {
            // Numbers that subscribers have seen must not be used again after a crash.
            self.unsynced = 0;
            parts.journal.sync()?;
        }
        Ok(())
    }

    /// Makes everything in the journal durable.
    fn now(&mut self, parts: &StateManagerParts) -> Result<(), IoError> {
        (self.due, self.unsynced) = (None, 0);
        parts.journal.sync()
    }

    /// Waits until the next sync is due, and runs it on another thread; returns when it has ended.
    ///
    /// # Errors
    ///
    /// [`PersistenceError::Journal`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a sync stays in progress.
    async fn done(&mut self, parts: &StateManagerParts) -> Result<(), Arc<PersistenceError>> {
        let work = match (&mut self.work, self.due) {
            (Some((work, _)), _) => work,
            (None, Some(due)) => {
                tokio::time::sleep_until(due).await;
                self.due = None;
                let journal = Arc::clone(&parts.journal);
                let work = Box::pin(parts.blocking.run(move || journal.sync()));
                let covers = std::mem::take(&mut self.unsynced);
                &mut self.work.insert((work, covers)).0
            }
            (None, None) => return std::future::pending().await,
        };
        let synced = work.await;
        self.work = None;
        synced.map_err(failed)
    }
}

/// Waits for the end of `work`; forever if there is none.
async fn in_progress<T>(work: &mut Option<BoxFuture<'static, T>>) -> T {
    match work {
        Some(work) => work.await,
        None => std::future::pending().await,
    }
}

fn failed(error: IoError) -> Arc<PersistenceError> {
    Arc::new(PersistenceError::Journal(error))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::{Receiver, Sender, channel};

    use futures_util::FutureExt as _;

    use super::*;
    use crate::journal::{EventHistory, EventJournal, JournalPage, PageLimit};
    use crate::state_manager::tests::parts;
    use crate::world::blocking::Blocking;
    use crate::world::disk::{Disk, RealDisk};

    /// Journal that holds nothing; each sync waits for a permit.
    #[derive(Debug)]
    struct SlowJournal {
        permits: Mutex<Receiver<()>>,
        syncs: AtomicUsize,
    }

    impl SlowJournal {
        fn new() -> (Arc<Self>, Sender<()>) {
            let (sender, permits) = channel();
            let journal = Self {
                permits: Mutex::new(permits),
                syncs: AtomicUsize::new(0),
            };
            (Arc::new(journal), sender)
        }

        fn syncs(&self) -> usize {
            self.syncs.load(Ordering::SeqCst)
        }
    }

    impl EventHistory for SlowJournal {
        fn lines_after(&self, _: u64, _: &mut dyn FnMut(u64, &[u8]) -> bool) -> Result<(), IoError> {
            Ok(())
        }

        fn count(&self) -> Result<u64, IoError> {
            Ok(0)
        }
    }

    impl EventJournal for SlowJournal {
        fn append(&self, _: &Batch) -> Result<(), IoError> {
            Ok(())
        }

        fn sync(&self) -> Result<(), IoError> {
            self.permits.lock().unwrap().recv().unwrap();
            self.syncs.fetch_add(1, Ordering::SeqCst);
            Ok(())
        }

        fn write_again(&self, _: u64) -> Result<(), IoError> {
            Ok(())
        }

        fn restore(&self, _: Vec<JournalEntry>) -> Result<(), IoError> {
            Ok(())
        }

        fn read_after(&self, _: u64, _: PageLimit) -> Result<JournalPage, IoError> {
            Ok(JournalPage::default())
        }

        fn last_seq(&self) -> u64 {
            0
        }
    }

    /// Counts events as [`JournalWriter::publish`] does before it appends them.
    fn append(sync: &mut LazySync, parts: &StateManagerParts, events: u64) {
        sync.unsynced += events;
        sync.append(parts, &Batch::default()).unwrap();
    }

    // covers: P2
    #[tokio::test(start_paused = true)]
    async fn a_sync_that_a_state_event_overtakes_hides_no_later_events_from_the_bound() {
        let folder = tempfile::tempdir().unwrap();
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let (journal, permits) = SlowJournal::new();
        let parts = StateManagerParts {
            journal: Arc::clone(&journal) as Arc<dyn EventJournal>,
            blocking: Blocking::Threads,
            ..parts(&disk, folder.path()).unwrap()
        };
        let mut sync = LazySync::default();
        append(&mut sync, &parts, SEQ_GAP * 2 / 5);
        tokio::time::advance(SYNC_DELAY * 2).await;
        assert!(
            sync.done(&parts).now_or_never().is_none(),
            "the sync is in progress"
        );
        // The number of a state event is safe, and so are all numbers before it.
        sync.unsynced = 0;
        append(&mut sync, &parts, SEQ_GAP * 3 / 5);
        permits.send(()).unwrap();
        sync.done(&parts).await.unwrap();
        assert_eq!(journal.syncs(), 1);

        permits.send(()).unwrap();
        append(&mut sync, &parts, SEQ_GAP * 2 / 5);
        assert_eq!(journal.syncs(), 1, "no more than the bound");
        append(&mut sync, &parts, 1);
        assert_eq!(journal.syncs(), 2, "one more than the bound");
    }
}
