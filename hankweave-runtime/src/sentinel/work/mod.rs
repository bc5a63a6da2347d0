//! The task that follows the events for all sentinels of a codon (SENT-10, SENT-13).

mod turns;
mod watching;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt as _};
use futures_util::stream::{FuturesUnordered, StreamExt};
use hankweave_core::codon::UnloadReason;
use hankweave_core::cost::Usd;
use hankweave_core::event::StateEvent;
use hankweave_core::id::SentinelId;
use hankweave_core::sentinel::model::Conversation;
use hankweave_core::sentinel::{Failures, ReportToWebsocket, SentinelEngine, Tracked};
use hankweave_core::wire::Event;
use tokio::sync::watch;
use tokio::time::Instant;

use self::turns::{AnswerWrite, Turn, TurnResult};
use self::watching::ChangedFiles;
use super::{Allowance, Context, Loadable, SentinelBackend, SentinelShutdown, SentinelTotals};
use crate::state_manager::{Delivery, Subscription, Ticket};

/// One sentinel at work.
struct Running {
    loadable: Loadable,
    reports: ReportToWebsocket,
    engine: SentinelEngine,
    tracked: Tracked,
    failures: Failures,
    /// Memory, if there is one.
    conversation: Option<Conversation>,
    /// It waits for an answer, or for the disk.
    busy: bool,
    /// How many questions were not asked because none may be asked any more.
    withheld: usize,
    /// How many events went with them.
    given_up: u64,
}

impl Running {
    /// Whether it asks a model, and runs no command.
    fn asks(&self) -> bool {
        matches!(self.loadable.backend, SentinelBackend::Model(_))
    }

    /// Gives up what waits; returns how many questions that are.
    fn give_up(&mut self) -> usize {
        let before = self.engine.dropped();
        let questions = self.engine.give_up();
        self.given_up += self.engine.dropped().saturating_sub(before);
        questions
    }

    /// Returns what it left undone, in words; `None` when that is nothing.
    fn left_undone(&self) -> Option<String> {
        let has_no_answer = self.busy && self.asks();
        Some(match (self.withheld, self.costs(), has_no_answer) {
            (0, _, false) => return None,
            (0, _, true) => "1 question got no answer".to_owned(),
            (1, true, false) => "1 question was not asked".to_owned(),
            (1, true, true) => "1 question was not asked and 1 got no answer".to_owned(),
            (more, true, false) => format!("{more} questions were not asked"),
            (more, true, true) => format!("{more} questions were not asked and 1 got no answer"),
            (1, false, _) => "it did not act once more".to_owned(),
            (more, false, _) => format!("it did not act {more} more times"),
        })
    }

    /// Whether its answers cost money: those of a model do, and those of a command that has reported a cost.
    fn costs(&self) -> bool {
        match self.loadable.backend {
            SentinelBackend::Model(_) => true,
            SentinelBackend::Command => self.tracked.tally.cost > Usd::ZERO,
        }
    }
}

pub(super) struct SentinelLoop {
    context: Context,
    sentinels: Vec<Running>,
    events: Subscription,
    /// Files of the workspace that the sentinels write themselves.
    own_files: BTreeSet<String>,
    /// Changes since the tree of files was last sent.
    changed: ChangedFiles,
    begun: Instant,
    /// Answers that are waited for.
    waits: FuturesUnordered<BoxFuture<'static, (Turn, TurnResult)>>,
    /// Answers on their way to the disk.
    writes: FuturesUnordered<BoxFuture<'static, AnswerWrite>>,
    /// The figures as they were last sent to the state document; they outlive a panic of this task.
    figures: watch::Sender<SentinelTotals>,
    ending: SentinelShutdown,
    /// The record that they are loaded.
    loading: Option<Ticket>,
    /// The number of the last event that was seen.
    seen: u64,
    /// Nothing more is listened to.
    stopped: bool,
    /// The codon has ended, and only that is still acted on.
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
        let one = |loadable: Loadable| Running {
            reports: loadable
                .settings
                .report_to_websocket
                .merged_over(loadable.config.report_to_websocket.unwrap_or_default()),
            engine: SentinelEngine::new(&loadable.config),
            tracked: Tracked::new(&loadable.config, now),
            failures: Failures::none(&loadable.config),
            conversation: loadable.config.conversational.as_ref().map(Conversation::new),
            busy: false,
            withheld: 0,
            given_up: 0,
            loadable,
        };
        Self {
            sentinels: sentinels.into_iter().map(one).collect(),
            context,
            events,
            own_files,
            changed: ChangedFiles::default(),
            begun: Instant::now(),
            waits: FuturesUnordered::new(),
            writes: FuturesUnordered::new(),
            figures,
            ending: SentinelShutdown::None,
            loading: None,
            seen: 0,
            stopped: false,
            after_end: false,
        }
    }

    /// Waits for the end of the codon from now on; those that do not act on it have been taken out of service.
    pub(super) fn begin_end(&mut self, allowance: Arc<Allowance>) -> watch::Receiver<SentinelTotals> {
        self.context.allowance = allowance;
        (self.after_end, self.stopped, self.ending) = (true, false, SentinelShutdown::None);
        self.figures.subscribe()
    }

    /// Records and publishes that the sentinels watch.
    pub(super) async fn load(&mut self) {
        self.loading = Some(self.record().await);
        for one in &self.sentinels {
            if !one.reports.lifecycle.unwrap_or(true) {
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

    /// Works until it is asked to end. Returns itself if some sentinels wait for the end of the codon.
    pub(super) async fn run(mut self, mut asked: watch::Receiver<SentinelShutdown>) -> Option<Self> {
        // Events from before the sentinels were loaded are not shown to them.
        if let Some(loading) = self.loading.take()
            && let Ok(loaded) = loading.await
        {
            self.seen = loaded.seq;
        }
        loop {
            self.begin_turns().await;
            if self.is_drained() {
                break;
            }
            let (deadline, due) = (self.deadline(), self.due());
            // Every arm is cancel safe: what is dropped has only waited.
            tokio::select! {
                biased;
                changed = asked.changed() => {
                    self.ending = *asked.borrow_and_update();
                    if changed.is_err() || self.ending == SentinelShutdown::Now {
                        self.see_rest();
                        break;
                    }
                    self.sentinels.iter_mut().for_each(|one| one.tracked.drain());
                    self.look_whether_all_is_seen();
                }
                () = sleep_until(deadline) => break,
                Some((turn, done)) = self.waits.next(), if !self.waits.is_empty() => self.end_turn(turn, done).await,
                Some(write) = self.writes.next(), if !self.writes.is_empty() => self.end_write(write).await,
                delivery = self.events.next(), if !self.stopped => match delivery {
                    Ok(Some(Delivery::Events(events))) => self.see(&events),
                    Ok(Some(Delivery::Lagged)) => {}
                    Ok(None) => self.stop_listening(),
                    Err(error) => {
                        tracing::warn!(error = %crate::error::chain(&error), "sentinels cannot read what they missed");
                        self.stop_listening();
                    }
                },
                () = sleep_until(due) => {
                    let now = self.begun.elapsed();
                    self.sentinels.iter_mut().for_each(|one| one.engine.tick(now));
                }
            }
        }
        self.end().await
    }

    /// Takes what is published already, so that what its end leaves unasked is counted whole.
    fn see_rest(&mut self) {
        while !self.stopped
            && let Some(Ok(Some(delivery))) = self.events.next().now_or_never()
        {
            if let Delivery::Events(events) = delivery {
                self.see(&events);
            }
        }
    }

    /// Whether everything was seen and nothing waits any more.
    fn is_drained(&self) -> bool {
        let idle = |one: &Running| !one.tracked.is_active() || one.engine.waiting() == 0;
        self.ending != SentinelShutdown::None
            && self.stopped
            && self.waits.is_empty()
            && self.writes.is_empty()
            && self.sentinels.iter().all(idle)
    }

    /// Returns the time at which an engine is due next.
    fn due(&self) -> Option<Instant> {
        let active = self.sentinels.iter().filter(|one| one.tracked.is_active());
        let due: Option<Duration> = active.filter_map(|one| one.engine.due()).min();
        due.map(|due| self.begun + due)
    }

    fn deadline(&self) -> Option<Instant> {
        match self.ending {
            SentinelShutdown::Drain { deadline, .. } => Some(deadline),
            SentinelShutdown::None | SentinelShutdown::Now => None,
        }
    }

    /// Takes all out of service that do not wait for the end of the codon; what is not finished is cut short.
    async fn end(mut self) -> Option<Self> {
        self.waits.clear();
        // An answer that is in its file already would be reported nowhere without this.
        while let Some(write) = self.writes.next().await {
            self.end_write(write).await;
        }
        for index in 0..self.sentinels.len() {
            self.withhold(index);
            self.drop_rest(index);
            self.tell_withheld(index).await;
        }
        for one in &self.sentinels {
            // Dropped events of a sentinel that was given up are reported already; the rest exceeded the number that may wait.
            let dropped = one.engine.dropped().saturating_sub(one.given_up);
            if dropped > 0 {
                let id: &SentinelId = &one.loadable.config.id;
                tracing::warn!(sentinel = %id, dropped, "a sentinel has not acted on everything");
            }
        }
        let (mut waits, mut recorded) = (false, None);
        for index in 0..self.sentinels.len() {
            let one = &mut self.sentinels[index];
            if one.tracked.is_active() && !self.after_end && one.loadable.config.acts_on_end() {
                one.give_up();
                waits = true;
                continue;
            }
            let unloaded = self.unload(index, UnloadReason::CodonComplete, None).await;
            recorded = unloaded.or(recorded);
        }
        if self.after_end {
            // The next step depends on their recorded costs.
            let recorded = match recorded {
                Some(recorded) => recorded,
                None => self.record().await,
            };
            let _ = recorded.await;
        }
        waits.then_some(self)
    }

    /// Gives up what waits for a sentinel whose answers cost something, if nothing may be asked any more. Returns whether that is so.
    pub(super) fn withhold(&mut self, index: usize) -> bool {
        let one = &mut self.sentinels[index];
        let is_withheld = !self.context.allowance.is_open() && one.costs();
        if is_withheld {
            one.withheld += one.give_up();
        }
        is_withheld
    }

    /// Gives up what a sentinel has collected and not acted on, and what it is at, because its codon was cut short.
    fn drop_rest(&mut self, index: usize) {
        let one = &mut self.sentinels[index];
        if one.tracked.is_active() {
            one.engine.flush();
            one.withheld += one.give_up() + usize::from(one.busy && !one.asks());
        }
    }

    async fn tell_withheld(&mut self, index: usize) {
        let one = &mut self.sentinels[index];
        let left_undone = one.left_undone();
        // A sentinel that waits for the end of its codon comes here again.
        (one.withheld, one.busy) = (0, false);
        if let Some(what) = left_undone {
            let id = &one.loadable.config.id;
            let why = match self.context.allowance.is_open() {
                true => "the codon has ended",
                false => self.context.allowance.why_closed(),
            };
            let message = format!("sentinel {id}: {what}, because {why}");
            self.context.publish(Event::Info { message }).await;
        }
    }

    /// Sends the figures of all sentinels to the state document.
    pub(super) async fn record(&mut self) -> Ticket {
        let records = SentinelTotals {
            states: self.sentinels.iter().map(|one| one.tracked.record()).collect(),
            cost: self.sentinels.iter().map(|one| one.tracked.tally.cost).sum(),
        };
        self.context.allowance.note_sentinels(records.cost);
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

    /// Takes a sentinel out of service, if it is in service.
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
        // Events that wait for a sentinel that is out of service never lead to a question.
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
        let told = one.reports.lifecycle.unwrap_or(true);
        let recorded = self.record().await;
        if told {
            self.context.publish(event).await;
        }
        Some(recorded)
    }
}

impl Context {
    async fn publish(&self, event: Event) {
        drop(self.manager.record(event).await);
    }
}

async fn sleep_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
