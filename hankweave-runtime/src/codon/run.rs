//! Running: handles the events of the agent until it ends, is stopped, or is silent for too long. Called for the first process of a codon's agent, and
//! again for each process that continues in the session (`extend`, `check`).

use std::time::Duration;

use hankweave_core::agent::{AgentEvent, BackgroundWork, ExitOutcome, FailureKind, FailureReason, Verdict};
use hankweave_core::budget::Meter;
use hankweave_core::codon::{BudgetExceeded, Codon, LoopCheck, LoopStall, Running};
use hankweave_core::cost::{UsageTotals, Usd};
use hankweave_core::hank::{OnExceeded, price_example};
use hankweave_core::time::short_duration;
use hankweave_core::wire::Event;
use serde_json::Value;
use tokio::time::Instant;

use super::background::{BackgroundCut, BackgroundWait, LeftRunning, ended_with, left_behind, titles};
use super::context::{CodonRun, StageResult};
use super::interruption::Interruption;
use super::listen::{AgentEventHandler, HandledEvents};
use super::proof::FileBaseline;
use super::silence::{Silence, SilenceAction};
use crate::driver::RunningAgent;

/// Why an agent is stopped.
enum StopReason {
    /// The codon has to end for a reason outside of the agent.
    Interrupted(Interruption),
    /// A limit is reached.
    OverBudget,
    /// The agent's dollars are limited and cannot be counted.
    Uncounted(FailureReason),
    /// The agent has answered, and only processes that it left running keep it alive.
    Settled,
    /// The agent has answered, and its background work has taken too long.
    Cut(BackgroundCut),
    /// The agent was silent for this long.
    Silent(Duration),
}

/// How the work of the agent ended.
#[derive(Debug)]
pub(super) enum AgentOutcome {
    /// The agent ended by itself.
    Ended(ExitOutcome),
    /// The work of the agent does not pass the checks.
    Rejected {
        exit: ExitOutcome,
        reason: FailureReason,
        /// The limit that leaves no budget to repair the work.
        exceeded: Option<BudgetExceeded>,
    },
    /// The agent was stopped for this reason.
    Stopped(Interruption, ExitOutcome),
    /// The agent's driver never reported the end.
    Lost,
}

/// Totals of a codon's earlier processes, to which another process adds.
#[derive(Debug)]
pub(super) struct EarlierUsage {
    meter: Meter,
    usage: UsageTotals,
    used_tool: bool,
    spoke: bool,
    proof: FileBaseline,
}

impl EarlierUsage {
    /// There was no earlier process.
    pub(super) fn nothing(codon: &CodonRun<'_>, proof: FileBaseline) -> Self {
        Self {
            meter: Meter::new(codon.limits),
            usage: UsageTotals::default(),
            used_tool: false,
            spoke: false,
            proof,
        }
    }
}

/// Result of the agent's work. Its usage is that of all processes of the codon.
#[derive(Debug)]
pub(super) struct AgentRun {
    pub(super) outcome: AgentOutcome,
    /// Whether the context got full and the agent shortened its conversation, in a codon that a full context completes.
    pub(super) context_was_full: bool,
    meter: Meter,
    proof: FileBaseline,
    /// The codon's time at work when its agent had ended. `exceeded` compares this time with the limit, so that checks after the agent do not count.
    elapsed: Duration,
    /// The limit for which the agent was stopped.
    reached: Option<BudgetExceeded>,
    /// Why the agent failed by itself, and not because a limit stopped it (HANK-38).
    pub(super) own_failure: Option<FailureReason>,
    pub(super) used_tool: bool,
    /// Whether a model of the agent has written or thought something.
    pub(super) spoke: bool,
    pub(super) answer: Option<String>,
    /// The last answer in the requested form, if the agent reports that separately.
    pub(super) structured: Option<Value>,
    /// Result of the loop's check, once that has run.
    pub(super) loop_check: Option<LoopCheck>,
    /// How often the loop has repeated itself, once that was examined.
    pub(super) loop_stall: Option<LoopStall>,
}

impl AgentRun {
    /// The end of the agent, if it succeeded and can continue: its context is not full, and no budget is used
    /// up.
    pub(super) fn success(&mut self) -> Option<ExitOutcome> {
        let exit = match &self.outcome {
            AgentOutcome::Ended(exit) if exit.verdict.is_success() && !self.context_was_full => exit.clone(),
            AgentOutcome::Ended(_)
            | AgentOutcome::Rejected { .. }
            | AgentOutcome::Stopped(..)
            | AgentOutcome::Lost => return None,
        };
        match self.exceeded(&exit.usage) {
            Some(_) => None,
            None => Some(exit),
        }
    }

    /// The end of the agent, if its work is to be checked because the codon would otherwise be complete, and whether the agent can continue.
    pub(super) fn checkable(&mut self, codon: &CodonRun<'_>) -> Option<(ExitOutcome, bool)> {
        if let Some(exit) = self.success() {
            return Some((exit, true));
        }
        let AgentOutcome::Ended(exit) = &self.outcome else {
            return None;
        };
        let exit = exit.clone();
        let completes = match (self.exceeded(&exit.usage), &exit.verdict) {
            (_, Verdict::Success) => true,
            (Some(_), _) if self.own_failure.is_some() => false,
            (Some(exceeded), _) => codon.limits.consequence(&exceeded) == OnExceeded::Complete,
            (None, Verdict::Failure { context_exceeded, .. }) => {
                *context_exceeded && codon.completes_at_full_context()
            }
        };
        completes.then_some((exit, false))
    }

    /// Returns the totals to which another process of the codon adds.
    pub(super) fn so_far(self) -> EarlierUsage {
        let usage = match self.outcome {
            AgentOutcome::Ended(exit)
            | AgentOutcome::Rejected { exit, .. }
            | AgentOutcome::Stopped(_, exit) => exit.usage,
            AgentOutcome::Lost => UsageTotals::default(),
        };
        EarlierUsage {
            meter: self.meter,
            usage,
            used_tool: self.used_tool,
            spoke: self.spoke,
            proof: self.proof,
        }
    }

    /// Returns the spending limit for another process of the codon; `None` without a limit.
    pub(super) fn dollars_left(&self) -> Option<Usd> {
        self.meter.dollars_left()
    }

    /// Notes that a limit was reached after the last process ended.
    pub(super) fn reach(&mut self, exceeded: BudgetExceeded) {
        self.reached = Some(exceeded);
    }

    /// The limit that was reached, by the agent's own final figures, `usage`.
    pub(super) fn exceeded(&mut self, usage: &UsageTotals) -> Option<BudgetExceeded> {
        self.meter.set_totals(usage.cost, usage.tokens);
        self.meter.exceeded(self.elapsed).or(self.reached)
    }
}

/// Handles the events of one process of the agent until its end. `so_far` is what the codon's earlier processes have used.
pub(super) async fn run(
    codon: &CodonRun<'_>,
    running: Codon<Running>,
    mut agent: RunningAgent,
    so_far: EarlierUsage,
) -> StageResult<(Codon<Running>, AgentRun)> {
    let (proof, used_tool, spoke) = (so_far.proof, so_far.used_tool, so_far.spoke);
    let mut listener = AgentEventHandler::new(codon, running, so_far.meter, so_far.usage.clone());
    let mut silence = Silence::of(codon);
    let clock = &*codon.run.world.clock;
    let mut background = BackgroundWait::new(codon, agent.pid);
    let time_is_over = codon.time_is_over();
    tokio::pin!(time_is_over);
    let mut reached = None;
    let mut outcome = loop {
        let (silent_at, due) = silence.next();
        // Every arm is cancel safe: a receive that is dropped loses nothing, the others only wait. An agent that prints
        // without end must not delay a stop, a limit or a survey of the files, so its events come after these.
        let why = tokio::select! {
            biased;
            why = codon.interrupted() => StopReason::Interrupted(why),
            _ = &mut time_is_over => StopReason::OverBudget,
            () = codon.run.watch.due() => {
                codon.run.watch.survey(codon).await;
                continue;
            }
            event = agent.events.recv() => {
                let Some(event) = event else { break AgentOutcome::Lost };
                match listener.listen(event, &mut agent.events).await {
                    HandledEvents::Events => {
                        let works = &listener.background;
                        silence.leave_out_suspension(clock.suspended());
                        silence.note_output(Instant::now(), listener.has_answered, !works.is_empty());
                        background.take_output(works, &silence).await;
                        continue;
                    }
                    HandledEvents::Overspent => StopReason::OverBudget,
                    HandledEvents::Unpriced(model) => StopReason::Uncounted(unpriced(&model)),
                    HandledEvents::End(exit) => {
                        codon.remarks.extend(left_behind(&exit));
                        break end_after_cut(codon, BackgroundCut::by_end(&listener.background), exit);
                    }
                }
            }
            () = tokio::time::sleep_until(silent_at) => {
                // While the run was suspended the agent could print nothing, so the silence has lasted less long.
                if silence.leave_out_suspension(clock.suspended()) {
                    continue;
                }
                match after_silence(codon, due, (&mut silence, &mut background), &listener).await {
                    Some(why) => why,
                    None => continue,
                }
            }
        };
        if matches!(why, StopReason::OverBudget) {
            codon.allowance.close_at_limit();
            reached = listener.meter.exceeded(codon.elapsed());
        }
        // Taken before the rest of the events is handled, which may report that the work has ended with the agent.
        let works = std::mem::take(&mut listener.background);
        stop(codon, agent.control.as_ref()).await;
        let Some(exit) = listener.listen_to_end(&mut agent.events).await else {
            break AgentOutcome::Lost;
        };
        if !matches!(why, StopReason::Settled | StopReason::Cut(_)) {
            codon.remarks.extend(ended_with(&works));
        }
        break match why {
            StopReason::Cut(cut) => end_after_cut(codon, Some(cut), exit),
            StopReason::Interrupted(why) => AgentOutcome::Stopped(why, exit),
            StopReason::Uncounted(reason) => AgentOutcome::Stopped(Interruption::Failure(reason), exit),
            // A reported success stays one, however long the silence after it.
            StopReason::Silent(longest) if !exit.verdict.is_success() => {
                let reason = silent(longest, &exit);
                AgentOutcome::Stopped(Interruption::Failure(reason), exit)
            }
            StopReason::OverBudget | StopReason::Settled | StopReason::Silent(_) => AgentOutcome::Ended(exit),
        };
    };
    if let AgentOutcome::Ended(exit) | AgentOutcome::Stopped(_, exit) = &mut outcome {
        exit.usage.merge(&so_far.usage);
    }
    if let AgentOutcome::Ended(exit) = &mut outcome {
        proof.check_success(codon, exit).await;
    }
    let own_failure = own_failure(codon, &outcome, &listener, reached.is_some());
    let work = AgentRun {
        outcome,
        context_was_full: listener.compacted && codon.completes_at_full_context(),
        meter: listener.meter,
        proof,
        elapsed: codon.elapsed(),
        reached,
        own_failure,
        used_tool: used_tool || listener.used_tool,
        spoke: spoke || listener.spoke,
        answer: listener.answer,
        structured: listener.structured,
        loop_check: None,
        loop_stall: None,
    };
    Ok((listener.running, work))
}

/// Returns why the agent failed by itself. If it was stopped at a limit, its exit may be an effect of the stop, so only an error that it reported itself
/// counts.
fn own_failure(
    codon: &CodonRun<'_>,
    outcome: &AgentOutcome,
    listener: &AgentEventHandler<'_>,
    was_stopped_at_limit: bool,
) -> Option<FailureReason> {
    let AgentOutcome::Ended(exit) = outcome else {
        return None;
    };
    let Verdict::Failure {
        reason,
        context_exceeded,
    } = &exit.verdict
    else {
        return None;
    };
    let is_own = match was_stopped_at_limit {
        true => listener.reported_own_error,
        false => !listener.is_spent,
    };
    let completes_codon = *context_exceeded && codon.completes_at_full_context();
    match is_own && !completes_codon {
        true => Some(reason.clone()),
        false => None,
    }
}

/// The end of an agent: a failure if background work was cut off and the codon fails for that.
fn end_after_cut(codon: &CodonRun<'_>, cut: Option<BackgroundCut>, exit: ExitOutcome) -> AgentOutcome {
    match cut.and_then(|cut| cut.failure(codon, &exit)) {
        Some(reason) => AgentOutcome::Stopped(Interruption::Failure(reason), exit),
        None => AgentOutcome::Ended(exit),
    }
}

/// Does what is due after a silence, and returns why the agent is to be stopped, if it is.
async fn after_silence(
    codon: &CodonRun<'_>,
    due: SilenceAction,
    (silence, background): (&mut Silence, &mut BackgroundWait<'_>),
    listener: &AgentEventHandler<'_>,
) -> Option<StopReason> {
    let works = &listener.background;
    let id = &codon.entry.codon_id;
    let publish_info = |message| codon.run.publish(Event::Info { message });
    match due {
        SilenceAction::Warning { silent, longest } => {
            let [silent, longest] = [silent, longest].map(short_duration);
            let end = format!("the agent is ended at {longest} (shimIdleTimeout)");
            publish_info(format!("{id}: silent for {silent}; {end}")).await;
            silence.note_warning();
            None
        }
        SilenceAction::Sample | SilenceAction::Settled(_) => {
            let left_running = background.sample(works).await;
            let now = Instant::now();
            let is_settled = silence.is_settled(now);
            // The run waits for work that the agent itself waits for, busy or not. So "busy" only counts without such work.
            let is_busy = left_running == LeftRunning::Busy && works.is_empty();
            silence.note_sample(now, is_busy && is_settled);
            let ends = match works.is_empty() {
                true => matches!(due, SilenceAction::Settled(_)) && !is_busy,
                false => is_settled && left_running == LeftRunning::Servers,
            };
            if ends {
                return Some(report_settled(codon, silence.settle_time(), works).await);
            }
            background.report_wait(works, silence).await;
            None
        }
        SilenceAction::Cut(limit) => {
            let end = format!(
                "it is ended after {} (maxBackgroundSeconds)",
                short_duration(limit)
            );
            publish_info(format!(
                "{id}: the agent has waited for its background work; {end}"
            ))
            .await;
            Some(StopReason::Cut(BackgroundCut::at_limit(limit, works)))
        }
        SilenceAction::TooLong(longest) => {
            let silent = short_duration(longest);
            publish_info(format!(
                "{id}: silent for {silent}; the agent is ended (shimIdleTimeout)"
            ))
            .await;
            Some(StopReason::Silent(longest))
        }
    }
}

/// Reports that what the agent left running is ended.
async fn report_settled(codon: &CodonRun<'_>, settle: Duration, works: &[BackgroundWork]) -> StopReason {
    let (id, settle) = (&codon.entry.codon_id, short_duration(settle));
    let message =
        format!("{id}: the agent has answered; what it left running is ended after {settle} (settleSeconds)");
    codon.run.publish(Event::Info { message }).await;
    let servers = titles(works).map_or(String::new(), |servers| {
        format!(": {servers}, which takes connections and is idle")
    });
    codon.remarks.add(format!(
        "what its agent left running was ended {settle} after the answer (settleSeconds){servers}"
    ));
    StopReason::Settled
}

/// Returns the failure of a codon whose money is limited and cannot be counted, with a file of prices that would help.
fn unpriced(model: &str) -> FailureReason {
    let example = price_example(model);
    FailureReason::unknown(
        false,
        format!(
            "the limit in dollars cannot be enforced: the price of the model `{model}` is not known; write it into a file such as prices.json, {example}, and add `--prices prices.json`"
        ),
    )
}

/// Returns the failure of a codon whose agent was silent for too long.
fn silent(longest: Duration, exit: &ExitOutcome) -> FailureReason {
    let message = exit.with_stderr(format!("the agent was silent for {}", short_duration(longest)));
    FailureReason {
        kind: FailureKind::Timeout,
        ..FailureReason::unknown(true, message)
    }
}

/// Stops an agent that has not reported its session, and returns its exit code, or -1.
pub(super) async fn halt(codon: &CodonRun<'_>, agent: &mut RunningAgent) -> i64 {
    let exit = stop_to_end(codon, agent).await;
    exit.map_or(-1, |exit| i64::from(exit.exit.code()))
}

/// Stops an agent that has not reported its session, and returns its end; `None` if the driver did not report it.
pub(super) async fn stop_to_end(codon: &CodonRun<'_>, agent: &mut RunningAgent) -> Option<ExitOutcome> {
    stop(codon, agent.control.as_ref()).await;
    while let Some(event) = agent.events.recv().await {
        if let AgentEvent::Finished(outcome) = event {
            codon.note_usage_before_session(&outcome.usage);
            return Some(outcome);
        }
    }
    None
}

/// Asks the agent to end; a forced stop, or a second request of the user, skips the grace period.
async fn stop(codon: &CodonRun<'_>, control: &dyn crate::driver::AgentControl) {
    // Dropping the graceful stop halfway is harmless: the forced one signals the group again.
    tokio::select! {
        biased;
        () = control.stop(codon.run.options.grace) => {}
        () = codon.orders.force_token().cancelled() => control.stop(Duration::ZERO).await,
    }
}
