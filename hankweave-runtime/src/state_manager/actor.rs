//! The task that owns the document (P1 to P4).

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use hankweave_core::document::HankweaveState;
use hankweave_core::event::StateEvent;
use hankweave_core::state::{Applied, LiveState};
use hankweave_core::time::Timestamp;
use hankweave_core::wire::CurrentFigures;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::degraded::Degraded;
use super::handle::CostFigures;
use super::journaling::{Content, Item, Journalist, Letters, News};
use super::snapshots::{Snapshots, Step};
use super::{Loaded, Parts, PersistenceError, Receipt, TransitionError};
use crate::journal::EventTexts;
use crate::store::{LogBatch, StateLog};

/// Events that share one sync at most.
const MAX_BATCH: usize = 1_024;

/// How long the last save may take (D8).
pub(super) const LAST_SAVE: Duration = Duration::from_secs(5);

pub(super) type Reply = oneshot::Sender<Result<Receipt, TransitionError>>;
type ShutdownReply = oneshot::Sender<Result<(), Arc<PersistenceError>>>;

/// What the handle asks for.
#[derive(Debug)]
pub(super) enum Request {
    Transition(StateEvent, Option<Reply>),
    Record(EventTexts, Option<Reply>),
    /// Several of them, and their places among those that may wait.
    Several(Vec<Request>, OwnedSemaphorePermit),
    Shutdown(ShutdownReply),
}

/// The single writer; see the module's documentation.
#[derive(Debug)]
#[must_use = "the state manager does nothing unless its task is spawned"]
pub struct StateManagerTask {
    parts: Parts,
    live: LiveState,
    next_seq: u64,
    log: StateLog,
    snapshots: Snapshots,
    /// Until the task runs.
    journalist: Option<Journalist>,
    letters: Letters,
    requests: mpsc::Receiver<Request>,
    /// Requests that were taken from the queue together.
    waiting: Vec<Request>,
    /// What has been recorded and nobody has been told yet.
    news: News,
    visible: watch::Sender<Arc<HankweaveState>>,
    costs: watch::Sender<CostFigures>,
    degraded: Degraded,
    /// Until the next requests are carried out.
    last: LastSync,
}

/// What the last sync tells of the next one.
#[derive(Debug, Default)]
struct LastSync {
    /// How many were answered at once.
    answered: usize,
    /// How many requests there will be if each of them sends again, with those that came meanwhile.
    expected: usize,
    took: Duration,
}

/// The accepted part of a batch, in queue order.
struct Accepted {
    /// When it was accepted.
    at: Timestamp,
    recorded: Vec<(Reply, Receipt)>,
    news: News,
    /// Whether a run or a codon changed its state.
    transition: bool,
}

impl Accepted {
    /// Room for `requests`.
    fn of(requests: usize, at: Timestamp) -> Self {
        Self {
            at,
            recorded: Vec::with_capacity(requests),
            news: News::with_room_for(requests),
            transition: false,
        }
    }

    fn refuse(self, error: &Arc<PersistenceError>) {
        let recorded = self.recorded.into_iter().map(|(reply, _)| reply);
        refuse(recorded.chain(self.news.waiting()), error);
    }
}

impl StateManagerTask {
    pub(super) fn new(
        parts: Parts,
        loaded: Loaded,
        requests: mpsc::Receiver<Request>,
        (visible, costs): (watch::Sender<Arc<HankweaveState>>, watch::Sender<CostFigures>),
        (journalist, letters): (Journalist, Letters),
        degraded: Degraded,
    ) -> Self {
        let mut snapshots = Snapshots::new(parts.clone(), letters.clone(), loaded.cuts);
        if loaded.behind {
            // Whoever reads state.json need not know the log, even if nothing changes in this life.
            snapshots.changed(true);
        }
        Self {
            snapshots,
            journalist: Some(journalist),
            letters,
            parts,
            live: loaded.live,
            next_seq: loaded.next_seq,
            log: loaded.log,
            requests,
            waiting: Vec::with_capacity(MAX_BATCH),
            news: News::default(),
            visible,
            costs,
            degraded,
            last: LastSync::default(),
        }
    }

    /// Starts the work, on a thread of its own since it waits for the disk; it ends with
    /// [`shutdown`](super::StateManager::shutdown) or when every handle is dropped. Whoever spawns it awaits its end.
    #[must_use = "nobody would notice a panic of the writer"]
    pub fn spawn(self) -> JoinHandle<()> {
        self.parts.blocking.spawn(self.run())
    }

    async fn run(self) {
        let blocking = self.parts.blocking;
        let (writer, journalist) = self.split();
        let journalist = blocking.spawn(journalist);
        writer.await;
        if let Err(ended) = journalist.await
            && ended.is_panic()
        {
            std::panic::resume_unwind(ended.into_panic());
        }
    }

    /// The writer and the journalist, for whoever schedules them otherwise than [`spawn`](Self::spawn), as a model checker does. Both must be
    /// run to their ends.
    pub fn split(
        mut self,
    ) -> (
        impl Future<Output = ()> + Send + 'static,
        impl Future<Output = ()> + Send + 'static,
    ) {
        let journalist = self.journalist.take().expect("a task runs once");
        (self.write(), journalist.run())
    }

    async fn write(mut self) {
        let shutdown = self.work().await;
        let outcome = self.save_in_time().await;
        match shutdown {
            // Who asked may have gone away meanwhile.
            Some(reply) => drop(reply.send(outcome)),
            None => outcome.unwrap_or_else(|error| tracing::error!(%error, "the last save failed")),
        }
        // What waits behind the shutdown is answered by its closed ticket, and the journalist has nothing more to wait for.
    }

    /// Carries out requests until somebody asks for the shutdown or nobody is left to ask for anything.
    async fn work(&mut self) -> Option<ShutdownReply> {
        loop {
            // Short work first: a busy queue must not keep a snapshot from its time.
            tokio::select! {
                biased;
                step = self.snapshots.step() => {
                    // What a snapshot holds must be in the journal first.
                    self.tell().await;
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

    /// Carries out the waiting requests up to a shutdown, which it returns.
    async fn commit(&mut self) -> Option<ShutdownReply> {
        let last = std::mem::take(&mut self.last);
        let mut accepted = Accepted::of(self.waiting.len().max(last.expected), self.parts.clock.now());
        let mut waiting = std::mem::take(&mut self.waiting);
        // Behind a shutdown nothing is taken: the dropped reply says so.
        let taken = waiting.len();
        let mut shutdown = waiting
            .drain(..)
            .find_map(|request| self.carry_out(request, &mut accepted));
        self.waiting = waiting;
        if shutdown.is_none() && last.answered >= 2 {
            shutdown = self.gather(taken, &last, &mut accepted);
        }
        self.tell().await;
        self.persist(accepted);
        if shutdown.is_some() || !self.somebody_goes_on() {
            self.tell().await;
        }
        shutdown
    }

    /// Lets those who were just answered send again before the next sync begins, so that one sync serves them all: while requests keep
    /// arriving, and for half as long as the last sync took at most. `taken` have arrived already.
    fn gather(
        &mut self,
        mut taken: usize,
        last: &LastSync,
        accepted: &mut Accepted,
    ) -> Option<ShutdownReply> {
        let enough = last.expected.min(MAX_BATCH);
        let mut shutdown = None;
        self.parts.blocking.linger(last.took / 2, || {
            while taken < enough
                && shutdown.is_none()
                && let Ok(request) = self.requests.try_recv()
            {
                taken += 1;
                shutdown = self.carry_out(request, accepted);
            }
            taken >= enough || shutdown.is_some()
        });
        shutdown
    }

    /// Whether one of those who were just answered sends again at once. What was recorded is then told while the next sync is in progress,
    /// when there is nothing else to do.
    fn somebody_goes_on(&self) -> bool {
        let sent = || !self.requests.is_empty();
        if self.last.answered >= 2 {
            self.parts.blocking.linger(self.last.took / 2, sent);
        }
        sent()
    }

    /// Carries out one request, or returns it when it is the last one.
    fn carry_out(&mut self, request: Request, accepted: &mut Accepted) -> Option<ShutdownReply> {
        match request {
            Request::Transition(event, reply) => self.judge(event, reply, accepted),
            Request::Record(texts, reply) => self.take(texts, reply, accepted),
            Request::Several(requests, _places) => {
                return requests
                    .into_iter()
                    .find_map(|request| self.carry_out(request, accepted));
            }
            Request::Shutdown(reply) => return Some(reply),
        }
        None
    }

    /// Lets the reducer judge one state event; a rejected one concerns nobody else.
    fn judge(&mut self, event: StateEvent, reply: Option<Reply>, accepted: &mut Accepted) {
        if let Some(error) = self.degraded.failure() {
            return answer(reply, Err(TransitionError::NotDurable(error)));
        }
        match self.apply(&event, accepted) {
            Ok((seq, json, applied)) => {
                let at = accepted.at;
                let receipt = Receipt { seq, at };
                accepted.recorded.extend(reply.map(|reply| (reply, receipt)));
                let figures = CurrentFigures::of(&self.live);
                let content = Content::Transition(event, json, figures);
                accepted.news.items.push(Item { seq, at, content });
                accepted.transition |= applied.transition;
            }
            Err(error) => {
                tracing::error!(%error, ?event, "a state event was refused; please report this bug");
                answer(reply, Err(error));
            }
        }
    }

    /// Adds an event to the document and to the lines of the log, or to neither. Returns its number, where its text stands in the lines, and
    /// what it changed.
    fn apply(
        &mut self,
        event: &StateEvent,
        accepted: &mut Accepted,
    ) -> Result<(u64, Range<usize>, Applied), TransitionError> {
        let (seq, lines) = (self.next_seq, &mut accepted.news.lines);
        let begin = lines.as_bytes().len();
        let json = lines
            .record(seq, accepted.at, event)
            .map_err(|error| TransitionError::NotText(Arc::new(error)))?;
        let applied = self.live.apply_event(event, accepted.at).map_err(|rejected| {
            lines.truncate(begin);
            TransitionError::Rejected(rejected)
        })?;
        self.next_seq += 1;
        Ok((seq, json, applied))
    }

    /// Gives events that change no state their places in history.
    fn take(&mut self, texts: EventTexts, reply: Option<Reply>, accepted: &mut Accepted) {
        if let Some(error) = self.degraded.failure() {
            return answer(reply, Err(TransitionError::NotDurable(error)));
        }
        let (seq, at) = (self.next_seq, accepted.at);
        self.next_seq += texts.len() as u64;
        let content = Content::Others(texts, reply);
        accepted.news.items.push(Item { seq, at, content });
    }

    /// Makes the accepted events durable, then visible, then known to those who wait. Everybody else is to be told.
    fn persist(&mut self, accepted: Accepted) {
        if !accepted.news.lines.is_empty() {
            let begun = Instant::now();
            if let Err(error) = self.append(&accepted.news.lines) {
                return accepted.refuse(&error);
            }
            let answered = accepted.recorded.len();
            self.last = LastSync {
                answered,
                expected: self.requests.len() + answered,
                took: begun.elapsed(),
            };
            self.snapshots.changed(accepted.transition);
            self.show();
        }
        // The newest first: whoever awaits several tickets in order is woken once, by the last reply, and not for each of them.
        for (reply, receipt) in accepted.recorded.into_iter().rev() {
            answer(reply, Ok(receipt));
        }
        self.news = accepted.news;
    }

    /// Makes what is durable visible.
    fn show(&self) {
        self.costs.send_replace(CostFigures::of(&self.live));
        let durable = self.live.document();
        self.visible.send_modify(|visible| match Arc::get_mut(visible) {
            Some(visible) => visible.follow(durable),
            // Somebody keeps what he saw.
            None => *visible = Arc::new(durable.clone()),
        });
    }

    /// Hands over what has been recorded.
    async fn tell(&mut self) {
        let news = std::mem::take(&mut self.news);
        if !news.items.is_empty() {
            self.letters.tell(news).await;
        }
    }

    /// Takes the snapshot in progress one step on.
    fn advance(&mut self, step: Step) {
        if self.degraded.failure().is_some() {
            return self.snapshots.abandon();
        }
        match step {
            Step::Due => {
                let (document, length) = (self.live.document().clone(), self.log.length());
                self.snapshots.begin(document, self.next_seq - 1, length);
            }
            Step::Rendered(writer, rendered) => {
                self.snapshots.keep_writer(writer);
                let mut batch = LogBatch::default();
                batch.mark(&rendered.mark);
                if self.append(&batch).is_ok() {
                    self.snapshots.save(rendered);
                }
            }
            Step::Saved(cut, Ok(())) => {
                self.snapshots.cuts().saved(cut, true);
                self.trim_log();
                if self.snapshots.cuts().wait_for_the_next() {
                    self.snapshots.hurry();
                }
            }
            Step::Saved(_, Err(error)) => self.degraded.note(error),
        }
    }

    /// Cuts off what neither state.json nor its backup needs, once that is worth it.
    fn trim_log(&mut self) {
        let Some(cut) = self.snapshots.cuts().take_unneeded(self.log.length()) else {
            return;
        };
        match self.parts.files.trim_log(&self.log, cut) {
            Ok(trimmed) => self.log = trimmed,
            Err(error) => self.degraded.note(Arc::new(PersistenceError::Files(error))),
        }
    }

    /// Makes lines of the log durable; a failure is noted before it is returned.
    fn append(&mut self, batch: &LogBatch) -> Result<(), Arc<PersistenceError>> {
        let appended = self.log.append(batch);
        self.noted(appended)
    }

    /// Notes that the log failed.
    fn noted(&self, done: io::Result<()>) -> Result<(), Arc<PersistenceError>> {
        done.map_err(|error| {
            let error = Arc::new(PersistenceError::Log(error));
            self.degraded.note(Arc::clone(&error));
            error
        })
    }

    /// Takes no more requests and brings the files up to date, as far as that works in time.
    async fn save_in_time(&mut self) -> Result<(), Arc<PersistenceError>> {
        self.requests.close();
        let saved = tokio::time::timeout(LAST_SAVE, self.save_for_good()).await;
        saved.unwrap_or_else(|_| {
            let error = Arc::new(PersistenceError::TimedOut {
                limit_seconds: LAST_SAVE.as_secs(),
            });
            self.degraded.note(Arc::clone(&error));
            Err(error)
        })
    }

    /// Brings state.json and the journal up to date and says so in the log.
    async fn save_for_good(&mut self) -> Result<(), Arc<PersistenceError>> {
        self.snapshots.hurry();
        while self.degraded.failure().is_none() && !self.snapshots.is_idle() {
            let step = self.snapshots.step().await;
            self.advance(step);
        }
        if self.degraded.failure().is_none() {
            let synced = self.letters.sync().await;
            synced.unwrap_or_else(|error| self.degraded.note(error));
        }
        if let Some(error) = self.degraded.failure() {
            return Err(error);
        }
        let mut batch = LogBatch::default();
        batch.closed(self.next_seq - 1);
        let closed = self.log.close(&batch);
        self.noted(closed)
    }
}

/// Tells everybody that the disk failed.
pub(super) fn refuse(replies: impl IntoIterator<Item = Reply>, error: &Arc<PersistenceError>) {
    for reply in replies {
        answer(reply, Err(TransitionError::NotDurable(Arc::clone(error))));
    }
}

/// Tells who waits for it what became of an event.
pub(super) fn answer(reply: impl Into<Option<Reply>>, result: Result<Receipt, TransitionError>) {
    if let Some(reply) = reply.into() {
        // Whoever dropped the ticket does not want to know.
        let _ = reply.send(result);
    }
}
