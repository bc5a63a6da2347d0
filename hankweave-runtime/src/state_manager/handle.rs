//! The side of the state manager that everybody else holds.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hankweave_core::cost::{TokenUsage, Usd};
use hankweave_core::document::{HankweaveState, KnownCheckpoints, PlanEntry};
use hankweave_core::event::StateEvent;
use hankweave_core::id::{CodonId, RunId};
use hankweave_core::state::{LiveState, Totals};
use hankweave_core::thread::{self, ExecutionThread};
use hankweave_core::time::Timestamp;
use hankweave_core::wire::Event;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use super::actor::{LAST_SAVE, Request};
use super::degraded::Degraded;
use super::journaling::Journalist;
use super::publish::Recent;
use super::{Loaded, Parts, PersistenceError, StateManagerTask, Subscription, TransitionError};
use crate::journal::EventJournal;
use crate::world::blocking::Blocking;

/// Events that may wait. The actor takes up to 1,024 at a time, so this is a few syncs ahead of the disk; whoever sends
/// more waits for the disk instead of filling the memory.
const QUEUE: usize = 4_096;

/// What the writer gets beyond the time for its last save; after it a disk is taken to hang.
const GRACE: Duration = Duration::from_secs(1);

/// Sends events to the single writer; cheap to clone.
#[derive(Debug, Clone)]
pub struct StateManager {
    queue: mpsc::Sender<Request>,
    /// Places for events that come several at a time.
    places: Arc<Semaphore>,
    visible: watch::Receiver<Arc<HankweaveState>>,
    costs: watch::Receiver<CostFigures>,
    told: watch::Receiver<u64>,
    degraded: watch::Receiver<Option<Arc<PersistenceError>>>,
    recent: Arc<Recent>,
    journal: Arc<dyn EventJournal>,
    blocking: Blocking,
}

/// What the codons cost (STATE-47): skipped codons count nothing, sentinels are apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CostFigures {
    /// All codons of all runs.
    pub total: Usd,
    /// The codons of the current run; zero when there is none.
    pub current_run: Usd,
    /// When a cost was recorded last; `None` before the first one of this process.
    pub last_updated: Option<Timestamp>,
}

impl CostFigures {
    pub(super) fn of(live: &LiveState) -> Self {
        let Totals {
            total, current_run, ..
        } = live.totals();
        Self {
            total,
            current_run,
            last_updated: live.costs_updated(),
        }
    }
}

/// The answer to one event. Dropping it changes nothing.
#[derive(Debug)]
#[must_use = "an event may be rejected, which only its ticket tells"]
pub struct Ticket(oneshot::Receiver<Result<Receipt, TransitionError>>);

/// A durable event's place in history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    /// Its number.
    pub seq: u64,
    /// When it was recorded.
    pub at: Timestamp,
}

/// Events that are sent together, in order.
#[derive(Debug, Default)]
pub struct Parcel {
    requests: Vec<Request>,
    count: usize,
}

impl Parcel {
    /// Adds a change of the document, as for [`StateManager::transition`].
    pub fn transition(&mut self, event: StateEvent) {
        self.requests.push(Request::Transition(event, None));
        self.count += 1;
    }

    /// Adds another event, as for [`StateManager::record`].
    pub fn record(&mut self, event: Event) {
        self.count += 1;
        match self.requests.last_mut() {
            Some(Request::Record(events, None)) => events.push(event),
            _ => self.requests.push(Request::Record(vec![event], None)),
        }
    }
}

impl StateManager {
    /// Makes the manager of a loaded state. Nothing happens until the task is run; whoever runs it owns its end.
    pub fn start(parts: Parts, loaded: Loaded) -> (Self, StateManagerTask) {
        let (queue, requests) = mpsc::channel(QUEUE);
        let recent = Arc::new(Recent::behind(loaded.next_seq - 1));
        let (visible_sender, visible) = watch::channel(Arc::new(loaded.live.document().clone()));
        let (costs_sender, costs) = watch::channel(CostFigures::of(&loaded.live));
        let (told_sender, told) = watch::channel(loaded.next_seq - 1);
        let (noted, degraded) = Degraded::new();
        let manager = Self {
            queue,
            places: Arc::new(Semaphore::new(QUEUE)),
            visible,
            costs,
            told,
            degraded,
            recent: Arc::clone(&recent),
            journal: Arc::clone(&parts.journal),
            blocking: parts.blocking,
        };
        let journalist = Journalist::new(parts.clone(), recent, told_sender, noted.clone());
        let task = StateManagerTask::new(
            parts,
            loaded,
            requests,
            (visible_sender, costs_sender),
            journalist,
            noted,
        );
        (manager, task)
    }

    /// Puts an event in the queue. Waits only while the queue is full, never for the disk.
    ///
    /// # Cancel safety
    ///
    /// A call that is dropped before it returns has put nothing in the queue.
    pub async fn transition(&self, event: StateEvent) -> Ticket {
        self.send(|reply| Request::Transition(event, Some(reply))).await
    }

    /// Sets what a codon has cost so far, as absolute values: the event `CostsUpdated`.
    pub async fn update_costs(
        &self,
        run_id: RunId,
        codon_id: CodonId,
        cost: Usd,
        tokens: TokenUsage,
    ) -> Ticket {
        self.transition(StateEvent::CostsUpdated {
            run_id,
            codon_id,
            cost,
            tokens,
        })
        .await
    }

    /// Replaces the execution plan, in order with the transitions.
    pub async fn replace_plan(&self, execution_plan: Vec<PlanEntry>) -> Ticket {
        self.transition(StateEvent::PlanReplaced { execution_plan }).await
    }

    /// Journals and publishes an event that does not change the document, in order with those that do.
    ///
    /// Its ticket resolves when it is in the journal (D5).
    pub async fn record(&self, event: Event) -> Ticket {
        self.send(|reply| Request::Record(vec![event], Some(reply))).await
    }

    /// The same for many events at a time, which wakes the writer once. Nobody hears what becomes of each.
    ///
    /// # Cancel safety
    ///
    /// Either all of them are in the queue or none.
    pub async fn send_all(&self, parcel: Parcel) {
        if parcel.count == 0 {
            return;
        }
        // More than may wait wait alone. QUEUE is a small number.
        let count = u32::try_from(parcel.count.min(QUEUE)).unwrap_or(u32::MAX);
        // Places are never taken away.
        if let Ok(places) = Arc::clone(&self.places).acquire_many_owned(count).await {
            let _ = self.queue.send(Request::Several(parcel.requests, places)).await;
        }
    }

    /// The document as far as it is durable.
    #[must_use]
    pub fn snapshot(&self) -> Arc<HankweaveState> {
        Arc::clone(&self.visible.borrow())
    }

    /// What the codons cost, as far as that is durable, without a walk over the history.
    #[must_use]
    pub fn costs(&self) -> CostFigures {
        *self.costs.borrow()
    }

    /// What the codons of all runs cost.
    #[must_use]
    pub fn total_cost(&self) -> Usd {
        self.costs().total
    }

    /// What the codons of the current run cost; zero when there is none.
    #[must_use]
    pub fn current_run_cost(&self) -> Usd {
        self.costs().current_run
    }

    /// The thread that ends in `target`, or in the newest run. `known` are the checkpoints that exist; without them no checkpoint counts as
    /// validated, which is faster.
    #[must_use]
    pub fn execution_thread(
        &self,
        target: Option<&RunId>,
        known: Option<&dyn KnownCheckpoints>,
    ) -> ExecutionThread {
        thread::build(&self.snapshot(), target, known)
    }

    /// The number of the last event that was published; its ticket may have resolved before.
    #[must_use]
    pub fn last_seq(&self) -> u64 {
        *self.told.borrow()
    }

    /// Follows everything that is published from now on.
    #[must_use]
    pub fn subscribe(&self) -> Subscription {
        self.subscribe_after(self.last_seq())
    }

    /// Follows everything behind number `seq`, however old.
    #[must_use]
    pub fn subscribe_after(&self, seq: u64) -> Subscription {
        let (told, journal) = (self.told.clone(), Arc::clone(&self.journal));
        Subscription::new(Arc::clone(&self.recent), told, journal, self.blocking, seq)
    }

    /// What was recorded, to be read again.
    #[must_use]
    pub fn journal(&self) -> Arc<dyn EventJournal> {
        Arc::clone(&self.journal)
    }

    /// Tells when the disk has failed; nothing is recorded from then on and the runtime must stop with exit code 74.
    #[must_use]
    pub fn degraded(&self) -> watch::Receiver<Option<Arc<PersistenceError>>> {
        self.degraded.clone()
    }

    /// Records what waits, writes the last snapshot, and stops the task; within 5 seconds after the queue is empty (D8). Stopping twice is no error.
    ///
    /// # Errors
    ///
    /// [`PersistenceError`] when something acknowledged is durable only in the log, or the manager was degraded.
    pub async fn shutdown(&self) -> Result<(), Arc<PersistenceError>> {
        let (reply, done) = oneshot::channel();
        if self.queue.send(Request::Shutdown(reply)).await.is_err() {
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
        request: impl FnOnce(oneshot::Sender<Result<Receipt, TransitionError>>) -> Request,
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
