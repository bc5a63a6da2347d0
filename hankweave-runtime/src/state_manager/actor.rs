//! The task that owns the document.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hankweave_core::event::{Recorded, StateEvent};
use hankweave_core::state::{HankweaveState, LiveState};
use hankweave_core::time::Timestamp;
use hankweave_core::wire::{Event, JournalEntry};
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::time::Instant;

use super::load::{SEQ_GAP, journal_entry};
use super::snapshots::{Snapshots, Step};
use super::{Loaded, Parts, PersistenceError, Receipt, TransitionError};
use crate::journal::EventJournal;
use crate::store::{LogBatch, StateLog};

/// Events that share one sync at most.
const MAX_BATCH: usize = 1_024;

/// How long the journal may lack the sync ("reliability and security", rule D5).
const JOURNAL_PATIENCE: Duration = Duration::from_millis(200);

/// The log is cut once it is longer.
const LOG_BYTES: u64 = 4 << 20;

/// How long the last save may take ("reliability and security", rule D8).
const LAST_SAVE: Duration = Duration::from_secs(5);

type Reply = oneshot::Sender<Result<Receipt, TransitionError>>;
type ShutdownReply = oneshot::Sender<Result<(), Arc<PersistenceError>>>;

/// What the handle asks for.
#[derive(Debug)]
pub(super) enum Request {
    Transition(StateEvent, Reply),
    Record(Event, Reply),
    Shutdown(ShutdownReply),
}

/// What everybody may see: nothing that a crash could take back.
#[derive(Debug, Clone)]
pub(super) struct Visible {
    pub(super) state: Arc<HankweaveState>,
    pub(super) last_seq: u64,
}

impl Visible {
    pub(super) fn of(loaded: &Loaded) -> Self {
        Self {
            state: Arc::new(loaded.live.document().clone()),
            last_seq: loaded.next_seq - 1,
        }
    }
}

/// The single writer; see the module's documentation.
#[derive(Debug)]
#[must_use = "the state manager does nothing unless its task is run"]
pub struct StateManagerTask {
    parts: Parts,
    live: LiveState,
    next_seq: u64,
    log: Arc<Mutex<StateLog>>,
    snapshots: Snapshots,
    requests: mpsc::Receiver<Request>,
    /// Requests that were taken from the queue together.
    waiting: Vec<Request>,
    visible: watch::Sender<Visible>,
    degraded: watch::Sender<Option<Arc<PersistenceError>>>,
    published: broadcast::Sender<Arc<JournalEntry>>,
    journal_due: Option<Instant>,
    unsynced_entries: u64,
}

/// The accepted part of a batch, in queue order.
#[derive(Default)]
struct Accepted {
    lines: LogBatch,
    entries: Vec<Arc<JournalEntry>>,
    recorded: Vec<(Reply, Receipt)>,
    journaled: Vec<(Reply, Receipt)>,
    changed: bool,
    transition: bool,
}

impl StateManagerTask {
    pub(super) fn new(
        parts: Parts,
        loaded: Loaded,
        requests: mpsc::Receiver<Request>,
        visible: watch::Sender<Visible>,
        degraded: watch::Sender<Option<Arc<PersistenceError>>>,
        published: broadcast::Sender<Arc<JournalEntry>>,
    ) -> Self {
        Self {
            snapshots: Snapshots::new(parts.clone(), loaded.cuts),
            parts,
            live: loaded.live,
            next_seq: loaded.next_seq,
            log: Arc::new(Mutex::new(loaded.log)),
            requests,
            waiting: Vec::with_capacity(MAX_BATCH),
            visible,
            degraded,
            published,
            journal_due: None,
            unsynced_entries: 0,
        }
    }

    /// Works until [`shutdown`](super::StateManager::shutdown) or until every handle is dropped.
    pub async fn run(mut self) {
        loop {
            // Short work first: a busy queue must not keep a snapshot or a sync from its time.
            tokio::select! {
                biased;
                step = self.snapshots.step() => self.advance(step).await,
                () = wait_until(self.journal_due) => self.sync_journal().await,
                count = self.requests.recv_many(&mut self.waiting, MAX_BATCH) => {
                    let shutdown = self.commit().await;
                    if count == 0 || shutdown.is_some() {
                        return self.stop(shutdown).await;
                    }
                }
            }
        }
    }

    /// Carries out the waiting requests up to a shutdown, which it returns.
    async fn commit(&mut self) -> Option<ShutdownReply> {
        let (mut accepted, mut shutdown) = (Accepted::default(), None);
        let at = self.parts.clock.now();
        for request in std::mem::take(&mut self.waiting) {
            match request {
                Request::Transition(event, reply) => self.judge(event, at, reply, &mut accepted),
                Request::Record(event, reply) => self.take(event, at, reply, &mut accepted),
                Request::Shutdown(reply) => {
                    shutdown = Some(reply);
                    break;
                }
            }
        }
        if !accepted.entries.is_empty() {
            self.persist(accepted).await;
        }
        shutdown
    }

    /// Lets the reducer judge one state event; a rejected one concerns nobody else.
    fn judge(&mut self, event: StateEvent, at: Timestamp, reply: Reply, accepted: &mut Accepted) {
        if let Some(error) = self.failure() {
            return answer(reply, Err(TransitionError::NotDurable(error)));
        }
        let recorded = Recorded {
            seq: self.next_seq,
            at,
            event,
        };
        match self.live.apply(&recorded) {
            Ok(applied) => {
                self.next_seq += 1;
                accepted.lines.record(&recorded);
                accepted
                    .entries
                    .push(Arc::new(journal_entry(&recorded, &self.live, &*self.parts.ids)));
                accepted.recorded.push((
                    reply,
                    Receipt {
                        seq: recorded.seq,
                        at,
                    },
                ));
                accepted.changed = true;
                accepted.transition |= applied.transition;
            }
            Err(rejected) => {
                tracing::error!(error = %rejected, event = ?recorded.event, "a state event was rejected; please report this bug");
                answer(reply, Err(TransitionError::Rejected(rejected)));
            }
        }
    }

    /// Gives an event that changes no state its place in history.
    fn take(&mut self, event: Event, at: Timestamp, reply: Reply, accepted: &mut Accepted) {
        if let Some(error) = self.failure() {
            return answer(reply, Err(TransitionError::NotDurable(error)));
        }
        let seq = self.next_seq;
        self.next_seq += 1;
        let id = self.parts.ids.event_id();
        accepted.entries.push(Arc::new(JournalEntry {
            seq,
            id,
            timestamp: at,
            event,
        }));
        accepted.journaled.push((reply, Receipt { seq, at }));
    }

    /// Makes the accepted events durable, then visible, then known.
    async fn persist(&mut self, accepted: Accepted) {
        let Accepted {
            lines,
            entries,
            recorded,
            journaled,
            changed,
            transition,
        } = accepted;
        let (log, journal) = (Arc::clone(&self.log), Arc::clone(&self.parts.journal));
        let count = entries.len() as u64;
        // Numbers that subscribers have seen must not be given out again after a crash.
        let sync_journal = self.unsynced_entries + count > SEQ_GAP;
        let (entries, written) = self
            .parts
            .blocking
            .run(move || {
                let written = write(&log, &*journal, &lines, &entries, sync_journal);
                (entries, written)
            })
            .await;
        self.unsynced_entries = if sync_journal {
            0
        } else {
            self.unsynced_entries + count
        };
        self.journal_due
            .get_or_insert_with(|| Instant::now() + JOURNAL_PATIENCE);
        let journal_failed = match written {
            Ok(()) => None,
            Err(PersistenceError::Journal(error)) => Some(self.degrade(PersistenceError::Journal(error))),
            Err(error) => {
                let error = self.degrade(error);
                return refuse(recorded.into_iter().chain(journaled), &error);
            }
        };
        if changed {
            self.snapshots.changed(transition);
        }
        self.show(changed);
        recorded
            .into_iter()
            .for_each(|(reply, receipt)| answer(reply, Ok(receipt)));
        match journal_failed {
            // The state events are durable in the log and reach the journal at the next start.
            Some(error) => refuse(journaled, &error),
            None => {
                journaled
                    .into_iter()
                    .for_each(|(reply, receipt)| answer(reply, Ok(receipt)));
                self.publish(entries);
            }
        }
    }

    fn show(&self, changed: bool) {
        self.visible.send_modify(|visible| {
            visible.last_seq = self.next_seq - 1;
            if changed {
                visible.state = Arc::new(self.live.document().clone());
            }
        });
    }

    fn publish(&self, entries: Vec<Arc<JournalEntry>>) {
        for entry in entries {
            // An error only says that nobody listens.
            let _ = self.published.send(entry);
        }
    }

    fn begin_snapshot(&mut self) {
        let length = self.with_log(|log| log.length());
        self.snapshots
            .begin(self.live.document().clone(), self.next_seq - 1, length);
    }

    /// Takes the snapshot in progress one step on.
    async fn advance(&mut self, step: Step) {
        if self.failure().is_some() {
            return self.snapshots.abandon();
        }
        match step {
            Step::Due => self.begin_snapshot(),
            Step::Rendered(writer, rendered) => {
                self.snapshots.keep_writer(writer);
                let mut batch = LogBatch::default();
                batch.mark(&rendered.mark);
                match self.append(batch).await {
                    Ok(()) => self.snapshots.save(rendered),
                    Err(error) => drop(self.degrade(error)),
                }
            }
            Step::Saved(cut, Ok(())) => {
                self.snapshots.cuts().saved(cut, true);
                self.trim_log().await;
            }
            Step::Saved(_, Err(error)) => drop(self.degrade(error)),
        }
    }

    /// Cuts off what neither state.json nor its backup needs, once that is worth it.
    async fn trim_log(&mut self) {
        if self.with_log(|log| log.length()) <= LOG_BYTES {
            return;
        }
        let cut = self.snapshots.cuts().take_unneeded();
        let (log, files) = (Arc::clone(&self.log), self.parts.files.clone());
        let trimmed = self
            .parts
            .blocking
            .run(move || {
                let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
                files.trim_log(&log, cut).map(|trimmed| *log = trimmed)
            })
            .await;
        if let Err(error) = trimmed {
            self.degrade(PersistenceError::Files(error));
        }
    }

    async fn sync_journal(&mut self) {
        self.journal_due = None;
        self.unsynced_entries = 0;
        let journal = Arc::clone(&self.parts.journal);
        if let Err(error) = self.parts.blocking.run(move || journal.sync()).await {
            self.degrade(PersistenceError::Journal(error));
        }
    }

    async fn append(&mut self, batch: LogBatch) -> Result<(), PersistenceError> {
        let log = Arc::clone(&self.log);
        let append = move || log.lock().unwrap_or_else(PoisonError::into_inner).append(&batch);
        self.parts
            .blocking
            .run(append)
            .await
            .map_err(PersistenceError::Log)
    }

    /// Ends the task: what waits behind the shutdown is answered by its closed ticket.
    async fn stop(mut self, shutdown: Option<ShutdownReply>) {
        self.requests.close();
        let saved = tokio::time::timeout(LAST_SAVE, self.save_for_good()).await;
        let outcome = saved.unwrap_or_else(|_| {
            Err(self.degrade(PersistenceError::TimedOut {
                limit_seconds: LAST_SAVE.as_secs(),
            }))
        });
        match shutdown {
            // Who asked may have gone away meanwhile.
            Some(reply) => drop(reply.send(outcome)),
            None => outcome.unwrap_or_else(|error| tracing::error!(%error, "the last save failed")),
        }
    }

    /// Brings state.json and the journal up to date and says so in the log.
    async fn save_for_good(&mut self) -> Result<(), Arc<PersistenceError>> {
        self.snapshots.hurry();
        while self.failure().is_none() && !self.snapshots.is_idle() {
            let step = self.snapshots.step().await;
            self.advance(step).await;
        }
        if self.failure().is_none() {
            self.sync_journal().await;
        }
        if let Some(error) = self.failure() {
            return Err(error);
        }
        let mut batch = LogBatch::default();
        batch.closed(self.next_seq - 1);
        self.append(batch).await.map_err(|error| self.degrade(error))
    }

    fn failure(&self) -> Option<Arc<PersistenceError>> {
        self.degraded.borrow().clone()
    }

    /// Notes the first failure, after which nothing is written any more ("reliability and security", promise P5).
    fn degrade(&self, error: PersistenceError) -> Arc<PersistenceError> {
        tracing::error!(%error, source = ?std::error::Error::source(&error), "the disk failed; no more work is recorded");
        let error = Arc::new(error);
        self.degraded.send_if_modified(|first| {
            let is_first = first.is_none();
            first.get_or_insert_with(|| Arc::clone(&error));
            is_first
        });
        error
    }

    fn with_log<T>(&self, look: impl FnOnce(&StateLog) -> T) -> T {
        look(&self.log.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Writes the log with its sync, then the journal, which is derived from it.
fn write(
    log: &Mutex<StateLog>,
    journal: &dyn EventJournal,
    lines: &LogBatch,
    entries: &[Arc<JournalEntry>],
    sync_journal: bool,
) -> Result<(), PersistenceError> {
    if !lines.is_empty() {
        // A panic while the log was held ended the actor, the only one who comes here.
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        log.append(lines).map_err(PersistenceError::Log)?;
    }
    journal.append(entries).map_err(PersistenceError::Journal)?;
    if sync_journal {
        journal.sync().map_err(PersistenceError::Journal)?;
    }
    Ok(())
}

fn refuse(replies: impl IntoIterator<Item = (Reply, Receipt)>, error: &Arc<PersistenceError>) {
    for (reply, _) in replies {
        answer(reply, Err(TransitionError::NotDurable(Arc::clone(error))));
    }
}

fn answer(reply: Reply, result: Result<Receipt, TransitionError>) {
    // Whoever dropped the ticket does not want to know.
    let _ = reply.send(result);
}

async fn wait_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
