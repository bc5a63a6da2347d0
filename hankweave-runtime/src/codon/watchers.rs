//! The sentinels of a codon: loaded before its agent starts, drained before it ends, and there at no time for a codon without any (SENT-12, SENT-13).

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use hankweave_core::agent::{FailureKind, FailureReason};
use hankweave_core::codon::{
    Active, Codon, CodonExecution, CompletingSentinels, Initializing, Loaded, Preparing, Running, Sentinels,
    Starting,
};
use hankweave_core::cost::Usd;
use hankweave_core::hank::SentinelSource;
use hankweave_core::sentinel::{Ask, FileInterest};
use hankweave_core::wire::Event;
use tokio::time::Instant;

use super::context::{CodonRun, StageResult};
use super::orders::CodonCommand;
use crate::sentinel::{
    Allowance, Context, EndWatchers, Loadable, SentinelRequest, SentinelTotals, Spent, Watchers,
};
use crate::shutdown::StopCause;
use crate::state_manager::Ticket;

/// How long sentinels may work after their agent has ended.
const DRAIN: Duration = Duration::from_secs(60);

/// A state of an open codon, whose sentinels can be noted where it has any.
pub(super) trait HasSentinels: Active + Sized {
    fn note(codon: &mut Codon<Self>, sentinels: Sentinels<Loaded>);
}

impl HasSentinels for Preparing {
    fn note(_: &mut Codon<Self>, _: Sentinels<Loaded>) {}
}

macro_rules! watched {
    ($($state:ty),*) => {
        $(impl HasSentinels for $state {
            fn note(codon: &mut Codon<Self>, sentinels: Sentinels<Loaded>) {
                codon.set_sentinels(sentinels);
            }
        })*
    };
}

watched!(Starting, Initializing, Running, CompletingSentinels);

/// Loads the sentinels of the codon. One that cannot be loaded is left out, unless the codon must not run without it.
pub(super) async fn load(
    codon: &CodonRun<'_>,
    mut starting: Codon<Starting>,
) -> StageResult<Codon<Starting>> {
    if codon.config.sentinels.is_empty() {
        return Ok(starting);
    }
    let context = context(codon);
    let (mut loadable, mut missing) = (Vec::new(), Vec::new());
    for entry in &codon.config.sentinels {
        let name = match &entry.sentinel_config {
            SentinelSource::File(path) => path.clone(),
            SentinelSource::Inline(config) => config
                .get("id")
                .and_then(|id| id.as_str())
                .unwrap_or("?")
                .to_owned(),
        };
        match Loadable::of(entry, &codon.run.loaded, &context) {
            Ok(sentinel) => loadable.push(sentinel),
            Err(why) if entry.is_needed() => missing.push((name, why)),
            Err(why) => {
                let message = format!("sentinel {name} is left out: {why}");
                codon.remarks.add(message.clone());
                codon.run.publish(Event::Info { message }).await;
            }
        }
    }
    if !missing.is_empty() {
        let why: Vec<String> = missing
            .iter()
            .map(|(name, why)| format!("{name}: {why}"))
            .collect();
        let reason = FailureReason {
            kind: FailureKind::SentinelLoadFailure,
            sentinel_refs: Some(missing.into_iter().map(|(name, _)| name).collect()),
            ..FailureReason::unknown(
                false,
                format!("sentinels could not be loaded: {}", why.join("; ")),
            )
        };
        return Err(codon.fail(starting, -1, reason).await);
    }
    if loadable.is_empty() {
        return Ok(starting);
    }
    let (watchers, SentinelTotals { states, .. }) = Watchers::start(context, loadable).await;
    starting.set_sentinels(Sentinels::new(states, Usd::ZERO));
    *codon.watchers.lock().unwrap_or_else(PoisonError::into_inner) = Some(watchers);
    codon.run.watch.begin_unlisted(codon).await;
    Ok(starting)
}

fn context(codon: &CodonRun<'_>) -> Context {
    let (orders, shutdown) = (codon.orders.clone(), codon.run.shutdown.clone());
    let remarks = codon.remarks.clone();
    let demand = move |demand| match demand {
        SentinelRequest::Asked(Ask::Skip, why) => {
            remarks.add(format!("skipped by {why}"));
            orders.give(CodonCommand::Skip);
        }
        SentinelRequest::Asked(Ask::Stop, why) => {
            orders.give(CodonCommand::Fail(format!("stopped by {why}")))
        }
        SentinelRequest::Asked(Ask::Pause, why) if shutdown.cause().is_none() => {
            remarks.add(format!("paused by {why}"));
            shutdown.explain(why);
            shutdown.request(StopCause::Sentinel);
        }
        // A second request would force the stop.
        SentinelRequest::Asked(Ask::Pause, _) => {}
        SentinelRequest::Refused(what) => remarks.add(what),
        SentinelRequest::Failed(why) => orders.give(CodonCommand::Fail(why)),
    };
    Context {
        world: codon.run.world.clone(),
        manager: codon.run.manager.clone(),
        dir: codon.run.dir.clone(),
        hank: codon.run.loaded.root.clone(),
        prices: Arc::clone(&codon.run.options.prices),
        env: codon.config.env.clone(),
        run: codon.run.run_id.clone(),
        codon: codon.entry.codon_id.clone(),
        allowance: Arc::clone(&codon.allowance),
        demand: Arc::new(demand),
    }
}

impl CodonRun<'_> {
    /// Whether sentinels watch the codon.
    pub(super) fn is_watched(&self) -> bool {
        self.watchers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_some()
    }

    /// Returns the cost of its sentinels so far.
    pub(super) fn sentinel_cost(&self) -> Usd {
        let watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        watchers.as_ref().map_or(Usd::ZERO, Watchers::cost)
    }

    /// Whether changed files are reported with their contents (SENT-19).
    pub(super) fn tells_contents(&self) -> bool {
        let watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        let watched = watchers
            .as_ref()
            .is_some_and(|watchers| watchers.speak_of_contents);
        watched || self.run.options.file_contents
    }

    /// The changes of files for which sentinels wait, whatever checkpoints hold (SENT-22).
    pub(super) fn file_interest(&self) -> Option<Arc<FileInterest>> {
        let watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        watchers.as_ref()?.file_interest.clone()
    }

    fn take_watchers(&self) -> Option<Watchers> {
        self.watchers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// Lets the sentinels work off what they have seen up to the event of `recorded`, for a while.
    pub(super) async fn drain(&self, state: &mut Codon<CompletingSentinels>, recorded: Ticket) {
        let (Some(watchers), recorded) = (self.take_watchers(), recorded.await) else {
            return;
        };
        let records = match recorded {
            Ok(receipt) => {
                let no_more_time = async {
                    self.time_is_over().await;
                    self.allowance.close_at_limit();
                    std::future::pending::<()>().await;
                };
                let cut = async {
                    tokio::select! {
                        biased;
                        _ = self.interrupted() => {}
                        () = no_more_time => {}
                    }
                };
                watchers.drain(receipt.seq, Instant::now() + DRAIN, cut).await
            }
            Err(_) => watchers.cut().await,
        };
        let records = self.keep_waiting(records);
        state.set_sentinels(Sentinels::new(records.states, records.cost));
    }

    /// Keeps those that act on the end of the codon until it has come.
    fn keep_waiting(&self, (records, remaining): (SentinelTotals, Option<EndWatchers>)) -> SentinelTotals {
        if remaining.is_some() {
            *self.end_watchers.lock().unwrap_or_else(PoisonError::into_inner) = remaining;
        }
        records
    }

    /// Lets the sentinels that wait for it act on the end of the codon, for a while. The codon stays as it is, apart from their figures (SENT-23).
    pub(crate) async fn tell_end(&self, ended: &mut CodonExecution) {
        let watchers = self
            .end_watchers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(watchers) = watchers else { return };
        let spent = Spent {
            agent: ended.agent_cost(),
            sentinels: ended.sentinel_cost(),
        };
        let allowance = Arc::new(Allowance::after_end(&self.limits, spent));
        // A codon that the stop of its run has ended continues another time, and nobody waits any longer.
        let is_left = self.run.shutdown.cause().is_some() || self.orders.was_forced();
        let records = match is_left {
            true => watchers.dismiss(allowance).await,
            false => {
                let deadline = Instant::now() + DRAIN;
                watchers.act(allowance, deadline, self.nobody_waits()).await
            }
        };
        ended.finish_sentinels(&records.states, records.cost);
        if !is_left {
            // The files that they have written do not belong to the next codon.
            self.run.watch.survey(self).await;
        }
    }

    /// Cuts the sentinels short, because the codon ends.
    pub(super) async fn cut_sentinels<S: HasSentinels>(&self, state: &mut Codon<S>) {
        if let Some(watchers) = self.take_watchers() {
            let records = self.keep_waiting(watchers.cut().await);
            S::note(state, Sentinels::new(records.states, records.cost));
        }
    }
}
