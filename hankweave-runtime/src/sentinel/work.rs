//! The task that follows the events for all sentinels of a codon (SENT-10, SENT-13).

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use hankweave_core::codon::UnloadReason;
use hankweave_core::cost::Usd;
use hankweave_core::event::StateEvent;
use hankweave_core::id::SentinelId;
use hankweave_core::sentinel::model::{Conversation, Exchange};
use hankweave_core::sentinel::{Answer, Ask, Engine, Failures, Firing, Reports, Seen, Tracked};
use hankweave_core::wire::{Event, SentinelTokens};
use tokio::sync::watch;
use tokio::time::Instant;

use super::call::CallError;
use super::command;
use super::model::{Asked, Judged};
use super::{Around, Demand, Ending, Loadable, Records, Voice};
use crate::state_manager::{Delivery, Events, Subscription, Ticket};

/// Tells of one file that has changed.
const FILE_UPDATED: &str = "file.updated";

/// Tells of all files, once after each look at them that found a change.
const TREE_UPDATED: &str = "filetree.updated";

/// One sentinel at work.
struct One {
    loadable: Loadable,
    reports: Reports,
    engine: Engine,
    tracked: Tracked,
    failures: Failures,
    /// What it remembers, if it does.
    conversation: Option<Conversation>,
    /// It waits for an answer, or for the disk.
    busy: bool,
}

/// What a sentinel had to wait for.
enum Done {
    Answered(Answer),
    /// A model answered, which has a price, whatever the answer is worth.
    Judged(Box<Asked>, Usd, Judged),
    Failed(CallError),
    Written(Answer, io::Result<()>),
}

/// Whose files have changed.
#[derive(Clone, Copy, Default)]
struct Changed {
    own: bool,
    others: bool,
}

/// Which sentinel it was, how often it was triggered and on how many events it acts.
#[derive(Clone, Copy)]
struct Turn {
    index: usize,
    number: u64,
    event_count: usize,
}

pub(super) struct Work {
    around: Around,
    sentinels: Vec<One>,
    events: Subscription,
    /// Files of the workspace that the sentinels write themselves.
    own_files: BTreeSet<String>,
    /// What has changed since the tree of files was last told.
    changed: Changed,
    begun: Instant,
    waits: FuturesUnordered<BoxFuture<'static, (Turn, Done)>>,
    /// The figures as they were last sent to the state document; they outlive a panic of this task.
    figures: watch::Sender<Records>,
    ending: Ending,
    /// The record that they are loaded.
    loading: Option<Ticket>,
    /// The number of the last event that was seen.
    seen: u64,
    /// Nothing more is listened to.
    deaf: bool,
}

impl Work {
    pub(super) fn new(
        around: Around,
        sentinels: Vec<Loadable>,
        events: Subscription,
        own_files: BTreeSet<String>,
        figures: watch::Sender<Records>,
    ) -> Self {
        let now = around.world.clock.now();
        let one = |loadable: Loadable| One {
            reports: loadable
                .settings
                .report_to_websocket
                .over(loadable.config.report_to_websocket.unwrap_or_default()),
            engine: Engine::new(&loadable.config),
            tracked: Tracked::new(&loadable.config, now),
            failures: Failures::none(&loadable.config),
            conversation: loadable.config.conversational.as_ref().map(Conversation::new),
            busy: false,
            loadable,
        };
        Self {
            sentinels: sentinels.into_iter().map(one).collect(),
            around,
            events,
            own_files,
            changed: Changed::default(),
            begun: Instant::now(),
            waits: FuturesUnordered::new(),
            figures,
            ending: Ending::None,
            loading: None,
            seen: 0,
            deaf: false,
        }
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
                codon_id: self.around.codon.clone(),
                model: config.model_name().to_owned(),
                trigger_type: config.trigger.name().to_owned(),
                execution_strategy: config.execution.name().to_owned(),
                conversational: config.conversational.is_some(),
                source: one.loadable.origin(),
                source_path: one.loadable.source_path.clone(),
            };
            self.around.publish(event).await;
        }
    }

    /// Works until it is told to end.
    pub(super) async fn run(mut self, mut asked: watch::Receiver<Ending>) {
        // What was on its way when they were loaded is not theirs to see.
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
                    if changed.is_err() || self.ending == Ending::Now {
                        break;
                    }
                    self.sentinels.iter_mut().for_each(|one| one.tracked.drain());
                    self.look_whether_all_is_seen();
                }
                () = sleep_until(deadline) => break,
                Some((turn, done)) = self.waits.next(), if !self.waits.is_empty() => self.end_turn(turn, done).await,
                delivery = self.events.next(), if !self.deaf => match delivery {
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
        self.end().await;
    }

    /// The sentinels that are idle act, each once.
    async fn begin_turns(&mut self) {
        for index in 0..self.sentinels.len() {
            let one = &mut self.sentinels[index];
            if one.busy || !one.tracked.is_active() {
                continue;
            }
            let Some(firing) = one.engine.next_firing() else {
                continue;
            };
            one.busy = true;
            one.tracked.tally.calls += 1;
            one.tracked.tally.triggers = one.engine.fired();
            one.tracked.tally.last_call = Some(self.around.world.clock.now());
            let turn = Turn {
                index,
                number: firing.number,
                event_count: firing.events.len(),
            };
            // A call that a crash cuts short has been made all the same.
            let recorded = self.record().await;
            self.tell_trigger(turn).await;
            self.call(turn, firing, recorded);
        }
    }

    async fn tell_trigger(&mut self, turn: Turn) {
        let one = &self.sentinels[turn.index];
        if one.reports.triggers.unwrap_or(false) {
            let event = Event::SentinelTriggered {
                sentinel_id: one.loadable.config.id.clone(),
                codon_id: self.around.codon.clone(),
                trigger_number: turn.number,
                strategy: one.loadable.config.execution.name().to_owned(),
                event_count: turn.event_count,
                queue_size: one.engine.waiting(),
            };
            self.around.publish(event).await;
        }
    }

    /// Asks, once that is recorded.
    fn call(&self, turn: Turn, firing: Firing, recorded: Ticket) {
        let one = &self.sentinels[turn.index];
        let around = self.around.clone();
        let (config, voice) = (one.loadable.config.clone(), one.loadable.voice.clone());
        let before = one.conversation.as_ref().map(Conversation::exchanges);
        self.wait_for(turn, async move {
            recorded.await?;
            match voice {
                Voice::Command => Ok(Done::Answered(command::call(around, config, firing).await?)),
                Voice::Model(model) => {
                    let world = around.clone();
                    let asked = move || model.question(&world, &firing, before.unwrap_or_default());
                    ask(around.world.blocking.run(asked).await?, &around).await
                }
            }
        });
    }

    /// Asks a model once more for what has not its form.
    fn call_again(&self, turn: Turn, asked: Asked, recorded: Ticket) {
        let around = self.around.clone();
        self.wait_for(turn, async move {
            recorded.await?;
            ask(asked, &around).await
        });
    }

    fn wait_for(&self, turn: Turn, done: impl Future<Output = Result<Done, CallError>> + Send + 'static) {
        self.waits.push(Box::pin(async move {
            (turn, done.await.unwrap_or_else(Done::Failed))
        }));
    }

    async fn end_turn(&mut self, turn: Turn, done: Done) {
        match done {
            Done::Answered(answer) => {
                let cost = answer.cost;
                self.answered(turn, answer, cost).await;
            }
            Done::Judged(asked, cost, judged) => self.judged(turn, *asked, cost, judged).await,
            Done::Failed(error) => self.unanswered(turn.index, &error).await,
            Done::Written(answer, Ok(())) => self.tell_output(turn, answer).await,
            Done::Written(answer, Err(error)) => {
                let message = format!("the answer could not be kept: {error}");
                self.failed(turn.index, "file-write-failed", true, message).await;
                self.tell_output(turn, answer).await;
            }
        }
    }

    /// What a model said is paid first; what has not its form is repaired once (SENT-17).
    async fn judged(&mut self, turn: Turn, asked: Asked, cost: Usd, judged: Judged) {
        match judged {
            Judged::Answer(answer) => {
                if let Some(conversation) = &mut self.sentinels[turn.index].conversation {
                    let (question, answer) = (asked.prompt, answer.text.clone());
                    conversation.add(Exchange { question, answer });
                }
                let (all, tokens) = (asked.cost, asked.tokens);
                let answer = Answer {
                    cost: all,
                    tokens,
                    ..answer
                };
                self.answered(turn, answer, cost).await;
            }
            Judged::Flawed(said, why) if !asked.is_repaired => {
                let recorded = self.paid(turn.index, cost).await;
                let one = &mut self.sentinels[turn.index];
                if !one.tracked.is_active() {
                    return;
                }
                one.tracked.tally.calls += 1;
                self.call_again(turn, asked.repaired(said, &why), recorded);
            }
            Judged::Flawed(_, why) => {
                drop(self.paid(turn.index, cost).await);
                self.unanswered(turn.index, &CallError::Form(why)).await;
            }
            Judged::Refused(why) => {
                drop(self.paid(turn.index, cost).await);
                self.unanswered(turn.index, &CallError::Refused(why)).await;
            }
        }
    }

    /// Records what was paid, and ends the service of a sentinel that has used up what it may cost.
    async fn paid(&mut self, index: usize, cost: Usd) -> Ticket {
        self.sentinels[index].tracked.tally.cost += cost;
        let recorded = self.record().await;
        if self.sentinels[index].tracked.is_spent() {
            self.unload(index, UnloadReason::FatalError, Some("resource"))
                .await;
        }
        recorded
    }

    /// Its costs are durable before an answer is kept.
    async fn answered(&mut self, turn: Turn, answer: Answer, cost: Usd) {
        self.sentinels[turn.index].failures.succeeded();
        let recorded = self.paid(turn.index, cost).await;
        if answer.text.is_empty() {
            self.sentinels[turn.index].busy = false;
            return self.pass_on(turn.index, answer.ask).await;
        }
        let (world, dir) = (self.around.world.clone(), self.around.dir.clone());
        let outputs = self.sentinels[turn.index].loadable.outputs.clone();
        self.waits.push(Box::pin(async move {
            if let Err(error) = recorded.await {
                return (turn, Done::Written(answer, Err(io::Error::other(error))));
            }
            let (disk, at, kept) = (Arc::clone(&world.disk), world.clock.now(), answer.clone());
            let written = world
                .blocking
                .run(move || outputs.write(&*disk, &dir, &kept, at))
                .await;
            (turn, Done::Written(answer, written))
        }));
    }

    /// Passes on what a sentinel asks for, if the hank lets it. Its answer is kept by then: what it asks for may end it.
    async fn pass_on(&mut self, index: usize, asked: Option<(Ask, String)>) {
        let Some((ask, reason)) = asked else {
            return;
        };
        let (around, loadable) = (&self.around, &self.sentinels[index].loadable);
        let (id, word) = (&loadable.config.id, ask.as_str());
        let may = loadable.settings.may_ask.contains(&ask);
        let why = if reason.is_empty() {
            String::new()
        } else {
            format!(": {reason}")
        };
        let message = match may {
            true => format!("sentinel {id} asks for `{word}`{why}"),
            false => format!("sentinel {id} asks for `{word}`, which the hank does not allow (mayAsk){why}"),
        };
        around.publish(Event::Info { message }).await;
        if may {
            (around.demand)(Demand::Asked(ask, format!("sentinel {id}{why}")));
        }
    }

    async fn tell_output(&mut self, turn: Turn, answer: Answer) {
        let one = &mut self.sentinels[turn.index];
        one.busy = false;
        if one.reports.outputs.unwrap_or(true) {
            let event = Event::SentinelOutput {
                sentinel_id: one.loadable.config.id.clone(),
                codon_id: self.around.codon.clone(),
                trigger_number: turn.number,
                output_type: match answer.value {
                    Some(_) => "structured".to_owned(),
                    None => "text".to_owned(),
                },
                content: answer.value.unwrap_or_else(|| answer.text.into()),
                cost: answer.cost,
                tokens: SentinelTokens {
                    input: answer.tokens.input_tokens,
                    output: answer.tokens.output_tokens,
                },
                event_count: turn.event_count,
            };
            self.around.publish(event).await;
        }
        self.pass_on(turn.index, answer.ask).await;
    }

    async fn unanswered(&mut self, index: usize, error: &CallError) {
        self.failed(index, error.name(), error.is_fatal(), error.to_string())
            .await;
    }

    async fn failed(&mut self, index: usize, error_type: &str, fatal: bool, message: String) {
        let one = &mut self.sentinels[index];
        one.busy = false;
        one.tracked.tally.failed += 1;
        let unloaded = one.failures.failed(fatal);
        let id = one.loadable.config.id.clone();
        let event = Event::SentinelError {
            sentinel_id: id.clone(),
            codon_id: self.around.codon.clone(),
            error_type: error_type.to_owned(),
            message: message.clone(),
            retriable: !fatal,
            consecutive_failure_count: one.failures.in_a_row(),
        };
        let (told, fails) = (
            one.reports.errors.unwrap_or(true),
            one.loadable.config.fails_its_codon(),
        );
        if told {
            self.around.publish(event).await;
        }
        match unloaded {
            Some(reason) => {
                let kind = (reason == UnloadReason::FatalError).then_some("configuration");
                self.unload(index, reason, kind).await;
                if fails {
                    (self.around.demand)(Demand::Failed(format!("sentinel {id} failed: {message}")));
                }
            }
            None => drop(self.record().await),
        }
    }

    async fn unload(&mut self, index: usize, reason: UnloadReason, error_type: Option<&str>) {
        let now = self.around.world.clock.now();
        let one = &mut self.sentinels[index];
        if !one.tracked.unload(now, reason) {
            return;
        }
        one.tracked.tally.triggers = one.engine.fired();
        let tally = one.tracked.tally;
        let event = Event::SentinelUnloaded {
            sentinel_id: one.loadable.config.id.clone(),
            codon_id: self.around.codon.clone(),
            reason,
            error_type: error_type.map(str::to_owned),
            final_cost: tally.cost,
            llm_call_count: tally.calls,
        };
        let told = one.reports.lifecycle.unwrap_or(true);
        drop(self.record().await);
        if told {
            self.around.publish(event).await;
        }
    }

    /// Shows the events to the sentinels that wait for such.
    fn see(&mut self, events: &Events) {
        let now = self.begun.elapsed();
        for line in events.lines() {
            if line.seq() <= self.seen {
                continue;
            }
            self.seen = line.seq();
            let interested = |one: &One| one.tracked.is_active() && one.engine.is_interested(line.kind());
            let tells_of_files = !self.own_files.is_empty() && line.kind() == FILE_UPDATED;
            if !tells_of_files && !self.sentinels.iter().any(interested) {
                continue;
            }
            let Some(event) = Seen::from_line(line.text()).filter(|event| !self.is_their_own_doing(event))
            else {
                continue;
            };
            let event = Arc::new(event);
            for one in self.sentinels.iter_mut().filter(|one| interested(one)) {
                one.engine.see(&event, now);
            }
        }
        self.look_whether_all_is_seen();
    }

    /// Whether it tells of what the sentinels have written: nobody is to act on what it has done itself.
    fn is_their_own_doing(&mut self, event: &Seen) -> bool {
        if event.kind == FILE_UPDATED {
            let path = event.data.get("path").and_then(|path| path.as_str());
            let is_own = path.is_some_and(|path| self.own_files.contains(path));
            self.changed.own |= is_own;
            self.changed.others |= !is_own;
            return is_own;
        }
        if event.kind != TREE_UPDATED {
            return false;
        }
        let Changed { own, others } = std::mem::take(&mut self.changed);
        own && !others
    }

    fn look_whether_all_is_seen(&mut self) {
        if matches!(self.ending, Ending::Drain { until, .. } if self.seen >= until) {
            self.stop_listening();
        }
    }

    /// Nothing more comes: what was collected is acted on.
    fn stop_listening(&mut self) {
        if !self.deaf {
            self.deaf = true;
            self.sentinels.iter_mut().for_each(|one| one.engine.flush());
        }
    }

    /// Whether everything was seen and nothing waits any more.
    fn is_drained(&self) -> bool {
        let idle = |one: &One| !one.tracked.is_active() || one.engine.waiting() == 0;
        self.ending != Ending::None && self.deaf && self.waits.is_empty() && self.sentinels.iter().all(idle)
    }

    /// When an engine is to be told the time.
    fn due(&self) -> Option<Instant> {
        let active = self.sentinels.iter().filter(|one| one.tracked.is_active());
        let due: Option<Duration> = active.filter_map(|one| one.engine.due()).min();
        due.map(|due| self.begun + due)
    }

    fn deadline(&self) -> Option<Instant> {
        match self.ending {
            Ending::Drain { deadline, .. } => Some(deadline),
            Ending::None | Ending::Now => None,
        }
    }

    /// Takes all out of service; what is not finished is cut short.
    async fn end(mut self) {
        self.waits.clear();
        for one in &self.sentinels {
            let (left, dropped) = (one.engine.waiting() + usize::from(one.busy), one.engine.dropped());
            if left > 0 || dropped > 0 {
                let id: &SentinelId = &one.loadable.config.id;
                tracing::warn!(sentinel = %id, left, dropped, "a sentinel has not acted on everything");
            }
        }
        for index in 0..self.sentinels.len() {
            self.unload(index, UnloadReason::CodonComplete, None).await;
        }
    }

    /// Sends the figures of all sentinels to the state document.
    async fn record(&mut self) -> Ticket {
        let records = Records {
            states: self.sentinels.iter().map(|one| one.tracked.record()).collect(),
            cost: self.sentinels.iter().map(|one| one.tracked.tally.cost).sum(),
        };
        self.figures.send_replace(records.clone());
        let event = StateEvent::SentinelStatesUpdated {
            run_id: self.around.run.clone(),
            codon_id: self.around.codon.clone(),
            sentinel_states: records.states,
            total_cost: records.cost,
        };
        self.around.manager.transition(event).await
    }
}

impl Around {
    async fn publish(&self, event: Event) {
        drop(self.manager.record(event).await);
    }
}

async fn ask(asked: Asked, around: &Around) -> Result<Done, CallError> {
    let (asked, cost, judged) = asked.ask(around).await?;
    Ok(Done::Judged(Box::new(asked), cost, judged))
}

async fn sleep_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
