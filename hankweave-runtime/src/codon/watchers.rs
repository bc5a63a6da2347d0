//! The sentinels of a codon, which observe its agent: loaded before the agent starts, drained before the codon ends, and those that act on the end
//! of the codon after that. A codon without sentinels does none of this (SENT-12, SENT-13).

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

/// A state of a codon that has not ended. Each state but `Preparing`, in which no sentinels are loaded, records the codon's sentinels.
pub(super) trait HasSentinels: Active + Sized {
    /// Records the sentinels in the codon.
    fn note(codon: &mut Codon<Self>, sentinels: Sentinels<Loaded>);
}

impl HasSentinels for Preparing {
    fn note(_: &mut Codon<Self>, _: Sentinels<Loaded>) {}
}

macro_rules! records_sentinels {
    ($($state:ty),*) => {
        $(impl HasSentinels for $state {
            fn note(codon: &mut Codon<Self>, sentinels: Sentinels<Loaded>) {
                codon.set_sentinels(sentinels);
            }
        })*
    };
}

records_sentinels!(Starting, Initializing, Running, CompletingSentinels);

/// Loads the sentinels of the codon. A sentinel that cannot be loaded is left out, or fails the codon if it is needed.
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
    codon.run.watch.start_unlisted(codon).await;
    Ok(starting)
}

/// Returns what the sentinels share, with the function that obeys their requests.
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
        // The run is stopping already, and a second request would force the stop.
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

    /// Returns the cost of the codon's sentinels so far.
    pub(super) fn sentinel_cost(&self) -> Usd {
        let watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        watchers.as_ref().map_or(Usd::ZERO, Watchers::cost)
    }

    /// Whether changed files are reported with their contents (SENT-19).
    pub(super) fn reports_contents(&self) -> bool {
        let watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        let sentinels_need_contents = watchers
            .as_ref()
            .is_some_and(|watchers| watchers.speak_of_contents);
        sentinels_need_contents || self.run.options.file_contents
    }

    /// The changes of files for which sentinels wait, also of files that no checkpoint holds (SENT-22).
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

    /// Lets the sentinels finish their work on the events up to that of `recorded`, for at most [`DRAIN`]; an interruption of the codon cuts them short.
    pub(super) async fn drain(&self, state: &mut Codon<CompletingSentinels>, recorded: Ticket) {
        let (Some(watchers), recorded) = (self.take_watchers(), recorded.await) else {
            return;
        };
        let records = match recorded {
            Ok(receipt) => {
                // When the codon's time is used up, the sentinels may ask no more models, but finish what they have begun.
                let close_at_time_limit = async {
                    self.time_is_over().await;
                    self.allowance.close_at_limit();
                    std::future::pending::<()>().await;
                };
                let cut = async {
                    tokio::select! {
                        biased;
                        _ = self.interrupted() => {}
                        () = close_at_time_limit => {}
                    }
                };
                watchers.drain(receipt.seq, Instant::now() + DRAIN, cut).await
            }
            Err(_) => watchers.cut().await,
        };
        let records = self.keep_end_watchers(records);
        state.set_sentinels(Sentinels::new(records.states, records.cost));
    }

    /// Keeps the sentinels that act on the end of the codon, and returns the totals of all.
    fn keep_end_watchers(
        &self,
        (records, remaining): (SentinelTotals, Option<EndWatchers>),
    ) -> SentinelTotals {
        if remaining.is_some() {
            *self.end_watchers.lock().unwrap_or_else(PoisonError::into_inner) = remaining;
        }
        records
    }

    /// Lets the sentinels that wait for the end of the codon act on it, for at most [`DRAIN`]. They change nothing in the ended codon but the
    /// figures of its sentinels (SENT-23).
    pub(crate) async fn run_end_watchers(&self, ended: &mut CodonExecution) {
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
        // After a stop of the run the codon continues in a later run, so this is not its end; after a forced stop the user does not wait.
        let are_dismissed = self.run.shutdown.cause().is_some() || self.orders.was_forced();
        let records = match are_dismissed {
            true => watchers.dismiss(allowance).await,
            false => {
                let deadline = Instant::now() + DRAIN;
                watchers
                    .act(allowance, deadline, self.until_sentinels_are_cut())
                    .await
            }
        };
        ended.finish_sentinels(&records.states, records.cost);
        if !are_dismissed {
            // The files that the sentinels have written do not belong to the next codon.
            self.run.watch.survey(self).await;
        }
    }

    /// Cuts the sentinels short, because the codon ends.
    pub(super) async fn cut_sentinels<S: HasSentinels>(&self, state: &mut Codon<S>) {
        if let Some(watchers) = self.take_watchers() {
            let records = self.keep_end_watchers(watchers.cut().await);
            S::note(state, Sentinels::new(records.states, records.cost));
        }
    }
}
