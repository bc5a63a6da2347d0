//! One task that follows the events for all sentinels of a codon (SENT-10, SENT-13).
//!
//! The task runs while the codon runs: it loads the sentinels ([`SentinelLoop::load`]), reads events and lets the sentinels act ([`SentinelLoop::run`])
//! until the codon asks for its shutdown, and then unloads them. Sentinels that act on the end of their codon stay: for them the loop runs once more
//! after that end ([`SentinelLoop::prepare_for_end`]), shows them only the event of the end, and unloads them.
//!
//! `watching` shows events to sentinels, `turns` has the steps from a question to its stored answer, `active` is one sentinel, and `unfinished` the
//! report of the work that it has left unfinished.

mod active;
mod turns;
mod unfinished;
mod watching;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt as _};
use futures_util::stream::{FuturesUnordered, StreamExt};
use hankweave_core::codon::UnloadReason;
use hankweave_core::event::StateEvent;
use hankweave_core::id::SentinelId;
use hankweave_core::wire::Event;
use tokio::sync::watch;
use tokio::time::Instant;

use self::active::ActiveSentinel;
use self::turns::{AnswerWrite, Turn, TurnResult};
use self::watching::ChangedFiles;
use super::{Allowance, Context, Loadable, SentinelShutdown, SentinelTotals};
use crate::state_manager::{Delivery, Subscription, Ticket};

/// The sentinels of one codon with the events that they see and the work that they wait for.
pub(super) struct SentinelLoop {
    context: Context,
    sentinels: Vec<ActiveSentinel>,
    events: Subscription,
    /// Files of the workspace that the sentinels write themselves.
    own_files: BTreeSet<String>,
    /// Changes since the tree of files was last sent.
    changed: ChangedFiles,
    /// Time from which the engines count.
    started: Instant,
    /// Questions that wait for their answers.
    waits: FuturesUnordered<BoxFuture<'static, (Turn, TurnResult)>>,
    /// Answers that are being written to the disk.
    writes: FuturesUnordered<BoxFuture<'static, AnswerWrite>>,
    /// The figures as they were last sent to the state document. Their receiver keeps them even if this task panics.
    figures: watch::Sender<SentinelTotals>,
    /// The last request of the codon to end.
    shutdown: SentinelShutdown,
    /// Ticket of the record that the sentinels were loaded, until `run` has awaited it.
    loading: Option<Ticket>,
    /// The number of the last event that was seen.
    seen: u64,
    /// Whether events are still read.
    is_listening: bool,
    /// Whether the codon has ended: then the sentinels see only the event of its end.
    after_end: bool,
}

impl SentinelLoop {
    pub(super) fn new(
        context: Context,
        sentinels: Vec<Loadable>,
        events: Subscription,
        own_files: BTreeSet<String>,
        figures: watch::Sender<SentinelTotals>,
    ) -> Self {
        let now = context.world.clock.now();
        let activate = |loadable| ActiveSentinel::new(loadable, now);
        Self {
            sentinels: sentinels.into_iter().map(activate).collect(),
            context,
            events,
            own_files,
            changed: ChangedFiles::default(),
            started: Instant::now(),
            waits: FuturesUnordered::new(),
            writes: FuturesUnordered::new(),
            figures,
            shutdown: SentinelShutdown::NotRequested,
            loading: None,
            seen: 0,
            is_listening: true,
            after_end: false,
        }
    }

    /// Records and publishes that the sentinels watch.
    pub(super) async fn load(&mut self) {
        self.loading = Some(self.record().await);
        for one in &self.sentinels {
            if !one.reports_lifecycle() {
                continue;
            }
            let config = &one.loadable.config;
            let event = Event::SentinelLoaded {
                sentinel_id: config.id.clone(),
                codon_id: self.context.codon.clone(),
                model: config.model_name().to_owned(),
                trigger_type: config.trigger.name().to_owned(),
                execution_strategy: config.execution.name().to_owned(),
                conversational: config.conversational.is_some(),
                source: one.loadable.origin(),
                source_path: one.loadable.source_path.clone(),
            };
            self.context.publish(event).await;
        }
    }

    /// Prepares the loop to run once more, for the sentinels that act on the end of the codon. Returns the receiver of the figures.
    pub(super) fn prepare_for_end(&mut self, allowance: Arc<Allowance>) -> watch::Receiver<SentinelTotals> {
        self.context.allowance = allowance;
        self.after_end = true;
        self.is_listening = true;
        self.shutdown = SentinelShutdown::NotRequested;
        self.figures.subscribe()
    }

    /// Works until the codon asks for the shutdown and all work is done or cut short. Returns the loop if some of its sentinels act on the end of the codon.
    pub(super) async fn run(
        mut self,
        mut shutdown_requests: watch::Receiver<SentinelShutdown>,
    ) -> Option<Self> {
        // The sentinels see only events after their loading. If the loading cannot be recorded, the run ends, so it does not matter what they see.
        if let Some(loading) = self.loading.take()
            && let Ok(loaded) = loading.await
        {
            self.seen = loaded.seq;
        }
        loop {
            self.start_turns().await;
            if self.is_drained() {
                break;
            }
            let (deadline, next_tick) = (self.shutdown_deadline(), self.next_tick());
            // Every arm is cancel safe: the futures that are dropped have only waited.
            tokio::select! {
                biased;
                changed = shutdown_requests.changed() => {
                    self.shutdown = *shutdown_requests.borrow_and_update();
                    if changed.is_err() || self.shutdown == SentinelShutdown::Now {
                        self.see_published();
                        break;
                    }
                    self.sentinels.iter_mut().for_each(|one| one.tracked.drain());
                    self.stop_after_last_event();
                }
                // No `see_published`: the events up to the end of the codon were read long before.
                () = sleep_until(deadline) => break,
                Some((turn, result)) = self.waits.next(), if !self.waits.is_empty() => self.end_turn(turn, result).await,
                Some(write) = self.writes.next(), if !self.writes.is_empty() => self.end_write(write).await,
                delivery = self.events.next(), if self.is_listening => match delivery {
                    Ok(Some(Delivery::Events(events))) => self.see(&events),
                    // Nothing is lost: the next events come from the journal.
                    Ok(Some(Delivery::Lagged)) => {}
                    Ok(None) => self.stop_listening(),
                    Err(error) => {
                        tracing::warn!(error = %crate::error::chain(&error), "sentinels cannot read what they missed");
                        self.stop_listening();
                    }
                },
                () = sleep_until(next_tick) => {
                    let now = self.started.elapsed();
                    self.sentinels.iter_mut().for_each(|one| one.engine.tick(now));
                }
            }
        }
        self.end().await
    }

    /// Shows the sentinels the events that are published already, so that the report of their unfinished work is complete.
    fn see_published(&mut self) {
        while self.is_listening
            && let Some(Ok(Some(delivery))) = self.events.next().now_or_never()
        {
            if let Delivery::Events(events) = delivery {
                self.see(&events);
            }
        }
    }

    /// Whether the codon has asked for the shutdown, and all events were seen and acted on.
    fn is_drained(&self) -> bool {
        let is_idle = |one: &ActiveSentinel| !one.tracked.is_active() || one.engine.waiting() == 0;
        self.shutdown != SentinelShutdown::NotRequested
            && !self.is_listening
            && self.waits.is_empty()
            && self.writes.is_empty()
            && self.sentinels.iter().all(is_idle)
    }

    /// Returns the moment at which an engine acts if no event comes before.
    fn next_tick(&self) -> Option<Instant> {
        let active = self.sentinels.iter().filter(|one| one.tracked.is_active());
        let due: Option<Duration> = active.filter_map(|one| one.engine.due()).min();
        due.map(|due| self.started + due)
    }

    /// Returns the moment at which unfinished work is cut short.
    fn shutdown_deadline(&self) -> Option<Instant> {
        match self.shutdown {
            SentinelShutdown::Drain { deadline, .. } => Some(deadline),
            SentinelShutdown::NotRequested | SentinelShutdown::Now => None,
        }
    }

    /// Cuts unfinished work short, reports it, and unloads the sentinels, except those that act on the end of the codon if that is still to come.
    async fn end(mut self) -> Option<Self> {
        self.waits.clear();
        // Otherwise an answer that is in its file already would not be published.
        while let Some(write) = self.writes.next().await {
            self.end_write(write).await;
        }
        self.report_unfinished().await;
        self.warn_of_dropped();
        let mut last_record = None;
        for index in 0..self.sentinels.len() {
            if self.after_end || !self.sentinels[index].loadable.config.acts_on_end() {
                let recorded = self.unload(index, UnloadReason::CodonComplete, None).await;
                last_record = recorded.or(last_record);
            }
        }
        if self.after_end {
            // The runner's next decision depends on the cost of the sentinels, so it must be durable. Records become durable in their order: awaiting the
            // last one is enough.
            let last_record = match last_record {
                Some(recorded) => recorded,
                None => self.record().await,
            };
            let _ = last_record.await;
        }
        let is_needed = self.sentinels.iter().any(|one| one.tracked.is_active());
        is_needed.then_some(self)
    }

    /// Gives up the unfinished work of the sentinels, and reports it with its reasons.
    async fn report_unfinished(&mut self) {
        for one in &mut self.sentinels {
            one.cut_short(&self.context.allowance);
            let id = &one.loadable.config.id;
            for sentence in one.unfinished.take() {
                let message = format!("sentinel {id}: {sentence}");
                self.context.publish(Event::Info { message }).await;
            }
        }
    }

    /// Warns of dropped times to act that are not reported yet: the queue was full, or their sentinel was unloaded.
    fn warn_of_dropped(&mut self) {
        for one in &mut self.sentinels {
            let dropped = one.take_dropped();
            if dropped > 0 {
                let id: &SentinelId = &one.loadable.config.id;
                tracing::warn!(sentinel = %id, dropped, "a sentinel has not acted on everything");
            }
        }
    }

    /// Sends the figures of all sentinels to the state document, to the codon (`figures`) and to the allowance, which closes if the budget is used up.
    pub(super) async fn record(&mut self) -> Ticket {
        let records = SentinelTotals {
            states: self.sentinels.iter().map(|one| one.tracked.record()).collect(),
            cost: self.sentinels.iter().map(|one| one.tracked.tally.cost).sum(),
        };
        self.context.allowance.set_sentinel_cost(records.cost);
        self.figures.send_replace(records.clone());
        let event = StateEvent::SentinelStatesUpdated {
            run_id: self.context.run.clone(),
            codon_id: self.context.codon.clone(),
            sentinel_states: records.states,
            total_cost: records.cost,
            after_end: self.after_end.then_some(true),
        };
        self.context.manager.transition(event).await
    }

    /// Ends the work of a sentinel, and records and publishes that; `None` if it was unloaded before. `error_type` names the kind of a fatal error.
    pub(super) async fn unload(
        &mut self,
        index: usize,
        reason: UnloadReason,
        error_type: Option<&str>,
    ) -> Option<Ticket> {
        let now = self.context.world.clock.now();
        let one = &mut self.sentinels[index];
        if !one.tracked.unload(now, reason) {
            return None;
        }
        one.tracked.tally.triggers = one.engine.fired();
        // The queue is not reported as unfinished: the event below has the number of dropped times to act, and the reason.
        one.engine.give_up();
        let dropped = one.engine.dropped();
        let tally = one.tracked.tally;
        let event = Event::SentinelUnloaded {
            sentinel_id: one.loadable.config.id.clone(),
            codon_id: self.context.codon.clone(),
            reason,
            error_type: error_type.map(str::to_owned),
            final_cost: tally.cost,
            cost_is_lower_bound: (tally.uncounted > 0).then_some(true),
            dropped: Some(dropped).filter(|dropped| *dropped > 0),
            llm_call_count: tally.calls,
        };
        let is_reported = one.reports_lifecycle();
        let recorded = self.record().await;
        if is_reported {
            self.context.publish(event).await;
        }
        Some(recorded)
    }
}

async fn sleep_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
