//! Running: the agent is heard until it ends, is stopped, or falls silent.

use std::time::Duration;

use hankweave_core::agent::{AgentEvent, ExitOutcome, FailureKind, FailureReason};
use hankweave_core::budget::{BudgetExceeded, Meter};
use hankweave_core::codon::{Codon, Running};
use hankweave_core::cost::UsageTotals;
use tokio::time::Instant;

use super::context::{CodonRun, Stage};
use super::listen::{Heard, Listener};
use super::orders::Interruption;
use crate::driver::RunningAgent;

/// Longest silence of an agent, unless the hank says another ("reliability and security", rule S6).
const SILENCE_DEADLINE: Duration = Duration::from_secs(30 * 60);

/// How the work of the agent ended.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The agent ended by itself.
    Ended(ExitOutcome),
    /// It was stopped for this reason.
    Stopped(Interruption, ExitOutcome),
    /// Its driver broke its promise to tell the end.
    Lost,
}

/// What a codon's earlier processes used.
#[derive(Debug)]
pub(super) struct SoFar {
    meter: Meter,
    usage: UsageTotals,
}

impl SoFar {
    /// There was no earlier process.
    pub(super) fn nothing(codon: &CodonRun<'_>) -> Self {
        Self {
            meter: Meter::new(codon.limits),
            usage: UsageTotals::default(),
        }
    }
}

/// What the agent did until its end. Its usage is that of all processes of the codon.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) outcome: Outcome,
    /// The agent shortened its conversation because its context was full.
    pub(super) compacted: bool,
    meter: Meter,
    /// The time that the codon had taken when the agent ended, or was told to.
    elapsed: Duration,
    /// The limit for which the agent was stopped.
    reached: Option<BudgetExceeded>,
}

impl Work {
    /// The end of the agent, when it succeeded and nothing keeps it from going on: its context is not full, and no budget is used up.
    pub(super) fn success(&mut self) -> Option<ExitOutcome> {
        let exit = match &self.outcome {
            Outcome::Ended(exit) if exit.verdict.is_success() && !self.compacted => exit.clone(),
            Outcome::Ended(_) | Outcome::Stopped(..) | Outcome::Lost => return None,
        };
        match self.exceeded(&exit.usage) {
            Some(_) => None,
            None => Some(exit),
        }
    }

    /// What another process of the codon comes on top of.
    pub(super) fn so_far(self) -> SoFar {
        let usage = match self.outcome {
            Outcome::Ended(exit) | Outcome::Stopped(_, exit) => exit.usage,
            Outcome::Lost => UsageTotals::default(),
        };
        SoFar {
            meter: self.meter,
            usage,
        }
    }

    /// Notes that a limit was reached after the last process ended.
    pub(super) fn reach(&mut self, exceeded: BudgetExceeded) {
        self.reached = Some(exceeded);
    }

    /// The limit that was reached, by the figures that the agent itself reports in the end.
    pub(super) fn exceeded(&mut self, usage: &UsageTotals) -> Option<BudgetExceeded> {
        self.meter.settle(usage.cost, usage.tokens);
        self.meter.exceeded(self.elapsed).or(self.reached)
    }
}

pub(super) async fn run(
    codon: &CodonRun<'_>,
    running: Codon<Running>,
    mut agent: RunningAgent,
    so_far: SoFar,
) -> Stage<(Codon<Running>, Work)> {
    let mut listener = Listener::new(codon, running, so_far.meter);
    let patience = patience(codon);
    let mut silent_at = Instant::now() + patience;
    let time_is_over = codon.time_is_over();
    tokio::pin!(time_is_over);
    let mut reached = None;
    let mut outcome = loop {
        // Every arm is cancel safe: a receive that is dropped loses nothing, the others only wait. An agent that never stops talking must not
        // keep the run from being stopped, so it is heard last.
        let why = tokio::select! {
            biased;
            why = codon.interrupted() => Some(why),
            _ = &mut time_is_over => None,
            () = codon.run.watch.due() => {
                codon.run.watch.look(codon).await;
                continue;
            }
            event = agent.events.recv() => {
                let Some(event) = event else { break Outcome::Lost };
                match listener.listen(event, &mut agent.events).await {
                    Heard::Words => {
                        silent_at = Instant::now() + patience;
                        continue;
                    }
                    Heard::Overspent => None,
                    Heard::End(outcome) => break Outcome::Ended(outcome),
                }
            }
            () = tokio::time::sleep_until(silent_at) => Some(Interruption::Failure(silent(patience))),
        };
        if why.is_none() {
            reached = listener.meter.exceeded(codon.begun.elapsed());
        }
        stop(codon, agent.control.as_ref()).await;
        break match (listener.hear_the_rest(&mut agent.events).await, why) {
            (Some(exit), Some(why)) => Outcome::Stopped(why, exit),
            (Some(exit), None) => Outcome::Ended(exit),
            (None, _) => Outcome::Lost,
        };
    };
    if let Outcome::Ended(exit) | Outcome::Stopped(_, exit) = &mut outcome {
        exit.usage.merge(&so_far.usage);
    }
    let work = Work {
        outcome,
        compacted: listener.compacted,
        meter: listener.meter,
        elapsed: codon.begun.elapsed(),
        reached,
    };
    Ok((listener.running, work))
}

/// How long the agent may be silent: as the codon says, else as the hank says ("hank configuration", `shimIdleTimeout`).
fn patience(codon: &CodonRun<'_>) -> Duration {
    let overrides = codon.run.hank.overrides.as_ref();
    let everywhere = overrides.and_then(|overrides| overrides.shim_idle_timeout);
    let seconds = codon.config.shim_idle_timeout.or(everywhere);
    seconds.map_or(SILENCE_DEADLINE, Duration::from_secs)
}

fn silent(patience: Duration) -> FailureReason {
    let message = format!("the agent was silent for {} s", patience.as_secs());
    FailureReason {
        kind: FailureKind::Timeout,
        ..FailureReason::unknown(true, message)
    }
}

/// Stops an agent whose words no longer matter and returns its exit code.
pub(super) async fn halt(codon: &CodonRun<'_>, agent: &mut RunningAgent) -> i64 {
    stop(codon, agent.control.as_ref()).await;
    while let Some(event) = agent.events.recv().await {
        if let AgentEvent::Finished(outcome) = event {
            return i64::from(outcome.exit.code());
        }
    }
    -1
}

/// Asks the agent to end; force, or a second request of the user, takes the grace away.
async fn stop(codon: &CodonRun<'_>, control: &dyn crate::driver::AgentControl) {
    // Dropping the graceful stop half-way is harmless: the forced one signals the same group again.
    tokio::select! {
        biased;
        () = control.stop(codon.run.options.grace) => {}
        () = codon.orders.force_token().cancelled() => control.stop(Duration::ZERO).await,
    }
}
