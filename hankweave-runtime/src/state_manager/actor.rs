//! The writer: the task that owns the document, carries out requests in batches, and advances snapshots (P1, P2, P3, P4).

use std::sync::Arc;
use std::{fmt, io};

use hankweave_core::document::HankweaveState;
use hankweave_core::event::StateEvent;
use hankweave_core::state::{Applied, LiveState};
use hankweave_core::time::Timestamp;
use hankweave_core::wire::{CurrentFigures, Event};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::costs::CostFigures;
use super::degraded::Degraded;
use super::journal_writer::{ItemContent, JournalItem, JournalQueue, JournalWriter, waiting};
use super::request::{ActorRequest, LAST_SAVE, Receipt, ShutdownReply, TransitionReply, answer, refuse};
use super::snapshots::{SnapshotStep, Snapshots};
use super::{LoadedState, PersistenceError, StateManagerParts, TransitionError};
use crate::store::{LogBatch, StateLog};

/// Maximum number of events that share one sync.
const MAX_BATCH: usize = 1_024;

/// The single writer; see the module's documentation.
#[must_use = "the state manager does nothing unless its task is spawned"]
pub struct StateManagerTask {
    parts: StateManagerParts,
    /// The document with all accepted events, also those that are not durable yet.
    live: LiveState,
    next_seq: u64,
    log: StateLog,
    snapshots: Snapshots,
    /// The second task; taken when the tasks start.
    journal_writer: Option<JournalWriter>,
    journal: JournalQueue,
    requests: mpsc::Receiver<ActorRequest>,
    /// Requests that were taken from the queue together.
    waiting: Vec<ActorRequest>,
    /// The durable document, for readers.
    visible: watch::Sender<Arc<HankweaveState>>,
    costs: watch::Sender<CostFigures>,
    degraded: Degraded,
}

/// The accepted part of a batch, in queue order.
struct AcceptedBatch {
    /// Time of all events in the batch.
    at: Timestamp,
    /// The lines of the state events, for the log.
    lines: LogBatch,
    /// Answers to the senders of the state events.
    recorded: Vec<(TransitionReply, Receipt)>,
    /// All events, for the journal.
    items: Vec<JournalItem>,
    /// Whether a run or a codon changed its state.
    has_transition: bool,
}

impl AcceptedBatch {
    fn at(at: Timestamp) -> Self {
        Self {
            at,
            lines: LogBatch::default(),
            recorded: Vec::new(),
            items: Vec::new(),
            has_transition: false,
        }
    }

    /// Answers all senders that the disk failed.
    fn refuse(self, error: &Arc<PersistenceError>) {
        let recorded = self.recorded.into_iter().map(|(reply, _)| reply);
        refuse(recorded.chain(waiting(self.items)), error);
    }
}

impl StateManagerTask {
    pub(super) fn new(
        parts: StateManagerParts,
        loaded: LoadedState,
        requests: mpsc::Receiver<ActorRequest>,
        (visible, costs): (watch::Sender<Arc<HankweaveState>>, watch::Sender<CostFigures>),
        (journal_writer, journal): (JournalWriter, JournalQueue),
        degraded: Degraded,
    ) -> Self {
        let mut snapshots = Snapshots::new(parts.clone(), journal.clone(), loaded.cuts);
        if loaded.behind {
            // Programs that read state.json without the log must not miss events, even if this process adds none.
            snapshots.changed(true);
        }
        Self {
            snapshots,
            journal_writer: Some(journal_writer),
            journal,
            parts,
            live: loaded.live,
            next_seq: loaded.next_seq,
            log: loaded.log,
            requests,
            waiting: Vec::with_capacity(MAX_BATCH),
            visible,
            costs,
            degraded,
        }
    }

    /// Starts both tasks, each on a thread of its own, because they wait for the disk. The work ends with
    /// [`shutdown`](super::StateManager::shutdown) or when every handle is dropped. The caller must await
    /// the end.
    #[must_use = "nobody would notice a panic of the writer"]
    pub fn spawn(self) -> JoinHandle<()> {
        self.parts.blocking.spawn(self.run())
    }

    async fn run(self) {
        let blocking = self.parts.blocking;
        let (writer, journal_writer) = self.split();
        let journal_writer = blocking.spawn(journal_writer);
        writer.await;
        if let Err(ended) = journal_writer.await
            && ended.is_panic()
        {
            std::panic::resume_unwind(ended.into_panic());
        }
    }

    /// Returns the writer and the journal writer, for callers that schedule them in another way than
    /// [`spawn`](Self::spawn), such as a model checker. Both must be run to their ends.
    pub fn split(
        mut self,
    ) -> (
        impl Future<Output = ()> + Send + 'static,
        impl Future<Output = ()> + Send + 'static,
    ) {
        let journal_writer = self.journal_writer.take().expect("a task runs once");
        (self.run_writer(), journal_writer.run())
    }

    async fn run_writer(mut self) {
        let shutdown = self.work().await;
        let outcome = self.save_in_time().await;
        match shutdown {
            // The caller may have stopped waiting.
            Some(reply) => drop(reply.send(outcome)),
            None => outcome.unwrap_or_else(|error| tracing::error!(%error, "the last save failed")),
        }
        // Dropping `self` closes the tickets of later requests, and the queue with which the journal writer ends.
    }

    /// Carries out requests until a shutdown is requested, whose reply it returns, or every handle is dropped.
    async fn work(&mut self) -> Option<ShutdownReply> {
        loop {
            // Short work first: a busy queue must not keep a snapshot from its time.
            tokio::select! {
                biased;
                step = self.snapshots.step() => {
                    self.advance(step);
                }
                count = self.requests.recv_many(&mut self.waiting, MAX_BATCH) => {
                    let shutdown = self.commit().await;
                    if count == 0 || shutdown.is_some() {
                        return shutdown;
                    }
                }
            }
        }
    }

    /// Carries out the waiting requests up to a shutdown, whose reply it returns.
    async fn commit(&mut self) -> Option<ShutdownReply> {
        let mut accepted = AcceptedBatch::at(self.parts.clock.now());
        let mut waiting = std::mem::take(&mut self.waiting);
        // Requests after a shutdown are dropped; their closed tickets report that.
        let shutdown = waiting
            .drain(..)
            .find_map(|request| self.carry_out(request, &mut accepted));
        self.waiting = waiting;
        self.persist(accepted).await;
        shutdown
    }

    /// Carries out one request, or returns the reply of a shutdown.
    fn carry_out(&mut self, request: ActorRequest, accepted: &mut AcceptedBatch) -> Option<ShutdownReply> {
        match request {
            ActorRequest::Transition(event, reply) => self.apply_event(event, reply, accepted),
            ActorRequest::Record(event, reply) => self.accept_other(event, reply, accepted),
            ActorRequest::Shutdown(reply) => return Some(reply),
        }
        None
    }

    /// Accepts or refuses one state event; a rejected event does not affect the others.
    fn apply_event(&mut self, event: StateEvent, reply: TransitionReply, accepted: &mut AcceptedBatch) {
        if let Some(error) = self.degraded.failure() {
            return answer(reply, Err(TransitionError::NotDurable(error)));
        }
        match self.apply(&event, accepted) {
            Ok((seq, applied)) => {
                let at = accepted.at;
                let receipt = Receipt { seq, at };
                accepted.recorded.push((reply, receipt));
                let figures = CurrentFigures::of(&self.live);
                let content = ItemContent::Transition(Box::new(event), figures);
                accepted.items.push(JournalItem { seq, at, content });
                accepted.has_transition |= applied.transition;
            }
            Err(error) => {
                tracing::error!(%error, ?event, "a state event was refused; please report this bug");
                answer(reply, Err(error));
            }
        }
    }

    /// Adds an event to the document and to the lines of the log, or to neither. Returns the number of the event and what
    /// it changed.
    fn apply(
        &mut self,
        event: &StateEvent,
        accepted: &mut AcceptedBatch,
    ) -> Result<(u64, Applied), TransitionError> {
        let (seq, lines) = (self.next_seq, &mut accepted.lines);
        let begin = lines.as_bytes().len();
        lines
            .record(seq, accepted.at, event)
            .map_err(|error| TransitionError::NotText(Arc::new(error)))?;
        let applied = self.live.apply_event(event, accepted.at).map_err(|rejected| {
            lines.truncate(begin);
            TransitionError::Rejected(rejected)
        })?;
        self.next_seq += 1;
        Ok((seq, applied))
    }

    /// Accepts an event that does not change the document, and gives it the next number.
    fn accept_other(&mut self, event: Box<Event>, reply: TransitionReply, accepted: &mut AcceptedBatch) {
        if let Some(error) = self.degraded.failure() {
            return answer(reply, Err(TransitionError::NotDurable(error)));
        }
        let (seq, at) = (self.next_seq, accepted.at);
        self.next_seq = seq + 1;
        let content = ItemContent::Other(event, reply);
        accepted.items.push(JournalItem { seq, at, content });
    }

    /// Makes the accepted state events durable, then visible, then answers their senders. Then queues all accepted events for the
    /// journal.
    async fn persist(&mut self, accepted: AcceptedBatch) {
        if !accepted.lines.is_empty() {
            if let Err(error) = self.append(&accepted.lines) {
                return accepted.refuse(&error);
            }
            self.snapshots.changed(accepted.has_transition);
            self.show();
        }
        for (reply, receipt) in accepted.recorded {
            answer(reply, Ok(receipt));
        }
        if !accepted.items.is_empty() {
            self.journal.append(accepted.items).await;
        }
    }

    /// Makes the document visible, once all its events are durable.
    fn show(&self) {
        self.costs.send_replace(CostFigures::of(&self.live));
        let durable = self.live.document();
        self.visible.send_modify(|visible| match Arc::get_mut(visible) {
            Some(visible) => visible.update_to(durable),
            // A reader still holds the old document, so it cannot be updated in place.
            None => *visible = Arc::new(durable.clone()),
        });
    }

    /// Does the next step of the snapshot in progress.
    fn advance(&mut self, step: SnapshotStep) {
        if self.degraded.failure().is_some() {
            return self.snapshots.abandon();
        }
        match step {
            SnapshotStep::Due => {
                let (document, length) = (self.live.document().clone(), self.log.length());
                self.snapshots.start(document, self.next_seq - 1, length);
            }
            SnapshotStep::Rendered(rendered) => {
                let mut batch = LogBatch::default();
                batch.mark(&rendered.mark);
                if self.append(&batch).is_ok() {
                    self.snapshots.save(rendered);
                }
            }
            SnapshotStep::Saved(cut, Ok(())) => {
                self.snapshots.cuts().saved(cut, true);
                self.trim_log();
            }
            SnapshotStep::Saved(_, Err(error)) => self.degraded.note(error),
        }
    }

    /// Cuts off the beginning of the log that neither state.json nor its backup needs, once that is worth it.
    fn trim_log(&mut self) {
        let Some(cut) = self.snapshots.cuts().take_unneeded(self.log.length()) else {
            return;
        };
        match self.parts.files.trim_log(&self.log, cut) {
            Ok(trimmed) => self.log = trimmed,
            Err(error) => self.degraded.note(Arc::new(PersistenceError::Files(error))),
        }
    }

    /// Makes lines of the log durable; a failure degrades the manager.
    fn append(&mut self, batch: &LogBatch) -> Result<(), Arc<PersistenceError>> {
        let appended = self.log.append(batch);
        self.note_log_failure(appended)
    }

    /// Degrades the manager if the log failed.
    fn note_log_failure(&self, result: io::Result<()>) -> Result<(), Arc<PersistenceError>> {
        result.map_err(|error| {
            let error = Arc::new(PersistenceError::Log(error));
            self.degraded.note(Arc::clone(&error));
            error
        })
    }

    /// Closes the queue of requests and saves everything, for at most [`LAST_SAVE`].
    async fn save_in_time(&mut self) -> Result<(), Arc<PersistenceError>> {
        self.requests.close();
        let saved = tokio::time::timeout(LAST_SAVE, self.save_last()).await;
        saved.unwrap_or_else(|_| {
            let error = Arc::new(PersistenceError::TimedOut {
                limit_seconds: LAST_SAVE.as_secs(),
            });
            self.degraded.note(Arc::clone(&error));
            Err(error)
        })
    }

    /// Updates state.json and the journal, and then writes the line of a clean end into the log.
    async fn save_last(&mut self) -> Result<(), Arc<PersistenceError>> {
        self.snapshots.hurry();
        while self.degraded.failure().is_none() && !self.snapshots.is_idle() {
            let step = self.snapshots.step().await;
            self.advance(step);
        }
        if self.degraded.failure().is_none() {
            let synced = self.journal.sync().await;
            synced.unwrap_or_else(|error| self.degraded.note(error));
        }
        if let Some(error) = self.degraded.failure() {
            return Err(error);
        }
        let mut batch = LogBatch::default();
        batch.closed(self.next_seq - 1);
        let closed = self.log.close(&batch);
        self.note_log_failure(closed)
    }
}

impl fmt::Debug for StateManagerTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StateManagerTask")
            .field("next_seq", &self.next_seq)
            .finish_non_exhaustive()
    }
}
