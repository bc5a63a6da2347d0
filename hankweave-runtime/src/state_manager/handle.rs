//! The handle of the state manager: sends events to the writer, and reads the durable state, costs and events.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hankweave_core::document::{HankweaveState, KnownCheckpoints, PlanEntry, SharedList};
use hankweave_core::event::StateEvent;
use hankweave_core::id::RunId;
use hankweave_core::thread::{self, ExecutionThread};
use hankweave_core::wire::Event;
use tokio::sync::{mpsc, oneshot, watch};

use super::costs::CostFigures;
use super::degraded::Degraded;
use super::journal_writer::JournalWriter;
use super::publish::Recent;
use super::request::{ActorRequest, LAST_SAVE, Receipt};
use super::{
    LoadedState, PersistenceError, StateManagerParts, StateManagerTask, Subscription, TransitionError,
};
use crate::journal::EventJournal;
use crate::world::blocking::Blocking;

/// Maximum number of waiting events. The writer takes up to 1,024 at a time, so senders are at most a few syncs ahead of the disk. A
/// sender of another event waits for the disk instead of filling the memory.
const QUEUE: usize = 4_096;

/// Time after [`LAST_SAVE`] in which the writer has to answer; then the disk is assumed to hang.
const GRACE: Duration = Duration::from_secs(1);

/// Sends events to the single writer; cheap to clone.
#[derive(Debug, Clone)]
pub struct StateManager {
    queue: mpsc::Sender<ActorRequest>,
    /// The durable document.
    visible: watch::Receiver<Arc<HankweaveState>>,
    costs: watch::Receiver<CostFigures>,
    /// The number of the last event that was published.
    published: watch::Receiver<u64>,
    degraded: watch::Receiver<Option<Arc<PersistenceError>>>,
    /// The events that were published last, for subscriptions.
    recent: Arc<Recent>,
    journal: Arc<dyn EventJournal>,
    blocking: Blocking,
}

/// The answer to one event. Dropping it changes nothing.
#[derive(Debug)]
#[must_use = "only the ticket reports that an event was rejected"]
pub struct Ticket(oneshot::Receiver<Result<Receipt, TransitionError>>);

impl StateManager {
    /// Makes the manager of a loaded state, and its task. Nothing happens until the task runs; the caller that spawns the task awaits its end.
    pub fn start(parts: StateManagerParts, loaded: LoadedState) -> (Self, StateManagerTask) {
        let (queue, requests) = mpsc::channel(QUEUE);
        let recent = Arc::new(Recent::after_seq(loaded.next_seq - 1));
        let (visible_sender, visible) = watch::channel(Arc::new(loaded.live.document().clone()));
        let (costs_sender, costs) = watch::channel(CostFigures::of(&loaded.live));
        let (published_sender, published) = watch::channel(loaded.next_seq - 1);
        let (degraded, degraded_receiver) = Degraded::new();
        let manager = Self {
            queue,
            visible,
            costs,
            published,
            degraded: degraded_receiver,
            recent: Arc::clone(&recent),
            journal: Arc::clone(&parts.journal),
            blocking: parts.blocking,
        };
        let journal_writer = JournalWriter::new(parts.clone(), recent, published_sender, degraded.clone());
        let task = StateManagerTask::new(
            parts,
            loaded,
            requests,
            (visible_sender, costs_sender),
            journal_writer,
            degraded,
        );
        (manager, task)
    }

    /// Puts an event in the queue. Waits only while the queue is full, never for the disk.
    ///
    /// # Cancel safety
    ///
    /// A call that is dropped before it returns has put nothing in the queue.
    pub async fn transition(&self, event: StateEvent) -> Ticket {
        self.send(|reply| ActorRequest::Transition(event, reply)).await
    }

    /// Replaces the execution plan, in order with the transitions.
    pub async fn replace_plan(&self, execution_plan: SharedList<PlanEntry>) -> Ticket {
        self.transition(StateEvent::PlanReplaced { execution_plan }).await
    }

    /// Writes an event that does not change the document into the journal and publishes it, in order with the transitions.
    ///
    /// The ticket resolves when the event is in the journal (D5).
    pub async fn record(&self, event: Event) -> Ticket {
        self.send(|reply| ActorRequest::Record(Box::new(event), reply))
            .await
    }

    /// Returns the durable document.
    #[must_use]
    pub fn snapshot(&self) -> Arc<HankweaveState> {
        Arc::clone(&self.visible.borrow())
    }

    /// Returns the durable cost of the codons, without a walk over the history.
    #[must_use]
    pub fn costs(&self) -> CostFigures {
        *self.costs.borrow()
    }

    /// The thread that ends in `target`, or in the newest run. `known` are the checkpoints that exist;
    /// without them no checkpoint counts as validated, which is faster.
    #[must_use]
    pub fn execution_thread(
        &self,
        target: Option<&RunId>,
        known: Option<&dyn KnownCheckpoints>,
    ) -> ExecutionThread {
        thread::build(&self.snapshot(), target, known)
    }

    /// The number of the last published event. Tickets of later events may have resolved already.
    #[must_use]
    pub fn last_seq(&self) -> u64 {
        *self.published.borrow()
    }

    /// Follows all events that are published from now on.
    #[must_use]
    pub fn subscribe(&self) -> Subscription {
        self.subscribe_after(self.last_seq())
    }

    /// Follows all events after number `seq`, however old.
    #[must_use]
    pub fn subscribe_after(&self, seq: u64) -> Subscription {
        let (published, journal) = (self.published.clone(), Arc::clone(&self.journal));
        Subscription::new(Arc::clone(&self.recent), published, journal, self.blocking, seq)
    }

    /// Returns the journal, to read recorded events again.
    #[must_use]
    pub fn journal(&self) -> Arc<dyn EventJournal> {
        Arc::clone(&self.journal)
    }

    /// Returns a receiver that changes when the disk has failed. From then on nothing is recorded, and the program must stop with exit
    /// code 74.
    #[must_use]
    pub fn degraded(&self) -> watch::Receiver<Option<Arc<PersistenceError>>> {
        self.degraded.clone()
    }

    /// Records the waiting events, writes the last snapshot, and stops the task, within 5 seconds after the queue is
    /// empty (D8). Stopping twice is no error.
    ///
    /// # Errors
    ///
    /// [`PersistenceError`] when the manager was degraded, or the last save failed: then some acknowledged events are durable only in the log.
    pub async fn shutdown(&self) -> Result<(), Arc<PersistenceError>> {
        let (reply, done) = oneshot::channel();
        if self.queue.send(ActorRequest::Shutdown(reply)).await.is_err() {
            return Ok(());
        }
        match tokio::time::timeout(LAST_SAVE + GRACE, done).await {
            // A reply that never comes means that another shutdown stopped the task first.
            Ok(reply) => reply.unwrap_or(Ok(())),
            Err(_) => Err(Arc::new(PersistenceError::TimedOut {
                limit_seconds: LAST_SAVE.as_secs(),
            })),
        }
    }

    async fn send(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<Receipt, TransitionError>>) -> ActorRequest,
    ) -> Ticket {
        let (reply, ticket) = oneshot::channel();
        // A queue that is closed drops the reply, which the ticket reports.
        let _ = self.queue.send(request(reply)).await;
        Ticket(ticket)
    }
}

impl Future for Ticket {
    type Output = Result<Receipt, TransitionError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0)
            .poll(context)
            .map(|reply| reply.unwrap_or(Err(TransitionError::Stopped)))
    }
}
