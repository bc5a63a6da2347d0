//! Running: what the agent tells becomes costs, counts and events.

use std::collections::HashMap;
use std::time::Duration;

use hankweave_core::agent::{AgentEvent, ExitOutcome, FailureKind, FailureReason, MessageUsage, ToolResult};
use hankweave_core::budget::{BudgetExceeded, Meter};
use hankweave_core::codon::{Codon, Running};
use hankweave_core::cost::UsageTotals;
use hankweave_core::event::StateEvent;
use hankweave_core::wire::{self, AgentAction};
use tokio::time::Instant;

use super::context::{CodonRun, Stage};
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
    let mut listener = Listener {
        codon,
        running,
        open_tools: HashMap::new(),
        meter: so_far.meter,
        compacted: false,
    };
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
            event = agent.events.recv() => match event {
                Some(AgentEvent::Finished(outcome)) => break Outcome::Ended(outcome),
                Some(event) => {
                    let spends = matches!(event, AgentEvent::Usage(_));
                    listener.hear(event).await;
                    silent_at = Instant::now() + patience;
                    match spends && listener.meter.exceeded(codon.begun.elapsed()).is_some() {
                        true => None,
                        false => continue,
                    }
                }
                None => break Outcome::Lost,
            },
            () = tokio::time::sleep_until(silent_at) => Some(Interruption::Failure(silent(patience))),
        };
        if why.is_none() {
            reached = listener.meter.exceeded(codon.begun.elapsed());
        }
        stop(codon, agent.control.as_ref()).await;
        break match (listener.hear_the_rest(&mut agent).await, why) {
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
        () = codon.run.shutdown.forced() => control.stop(Duration::ZERO).await,
        () = codon.orders.forced() => control.stop(Duration::ZERO).await,
    }
}

/// Turns the agent's events into costs and client events.
struct Listener<'a> {
    codon: &'a CodonRun<'a>,
    running: Codon<Running>,
    /// The tools that have not answered yet, with the moment of their use.
    open_tools: HashMap<String, (String, Instant)>,
    meter: Meter,
    compacted: bool,
}

impl Listener<'_> {
    /// What the agent had said before it was stopped still counts.
    async fn hear_the_rest(&mut self, agent: &mut RunningAgent) -> Option<ExitOutcome> {
        while let Some(event) = agent.events.recv().await {
            match event {
                AgentEvent::Finished(outcome) => return Some(outcome),
                event => self.hear(event).await,
            }
        }
        None
    }

    async fn hear(&mut self, event: AgentEvent) {
        match event {
            AgentEvent::Message { text, .. } => self.act(AgentAction::Message, text).await,
            AgentEvent::Thinking { text, .. } => self.act(AgentAction::Thinking, text).await,
            AgentEvent::ToolUse { id, name, input, .. } => self.use_tool(id, name, input).await,
            AgentEvent::ToolResult(result) => self.answer(result).await,
            AgentEvent::Usage(usage) => self.count(usage).await,
            AgentEvent::Compacted => {
                self.compacted = true;
                self.info("the agent shortened its conversation".to_owned()).await;
            }
            AgentEvent::Retrying {
                attempt,
                max_retries,
                error,
                ..
            } => {
                let most = max_retries.map_or(String::new(), |most| format!(" of {most}"));
                let why = error.unwrap_or_else(|| "a failed request".to_owned());
                self.info(format!("the agent retries after {why} (retry {attempt}{most})"))
                    .await;
            }
            AgentEvent::OutputTruncated { bytes, sha256 } => {
                let event = wire::Event::OutputTruncated {
                    codon_id: self.codon.entry.codon_id.clone(),
                    length: bytes,
                    sha256,
                };
                self.codon.run.tell(event).await;
            }
            AgentEvent::Unparsed { start } => {
                let codon_id = self.codon.entry.codon_id.clone();
                let event = wire::Event::OutputUnparsed { codon_id, start };
                self.codon.run.tell(event).await;
            }
            // An agent that has answered is about to end: what it reports is compared with its limits when it goes on, or has ended.
            AgentEvent::Result(result) => self.meter.settle(result.usage.cost, result.usage.tokens),
            // A second opening line after background work changes nothing.
            AgentEvent::SessionStarted { .. } | AgentEvent::Finished(_) => {}
        }
    }

    async fn act(&self, action: AgentAction, content: String) {
        let event = wire::Event::AssistantAction {
            codon_id: self.codon.entry.codon_id.clone(),
            action,
            content,
            tool_name: None,
            tool_input: None,
            tool_use_id: None,
        };
        self.codon.run.tell(event).await;
    }

    async fn use_tool(&mut self, id: String, name: String, input: serde_json::Value) {
        let event = wire::Event::AssistantAction {
            codon_id: self.codon.entry.codon_id.clone(),
            action: AgentAction::ToolUse,
            content: name.clone(),
            tool_name: Some(name.clone()),
            tool_input: Some(input),
            tool_use_id: Some(id.clone()),
        };
        self.open_tools.insert(id, (name, Instant::now()));
        self.codon.run.tell(event).await;
    }

    async fn answer(&mut self, result: ToolResult) {
        let (name, begin) = self.open_tools.remove(&result.tool_use_id).unzip();
        let elapsed = begin.map_or(Duration::ZERO, |begin| begin.elapsed());
        let event = wire::Event::ToolResult {
            codon_id: self.codon.entry.codon_id.clone(),
            tool_use_id: result.tool_use_id,
            tool_name: result.tool_name.or(name).unwrap_or_default(),
            result: result.text,
            truncated: result.truncated,
            original_length: result.original_length,
            execution_time_ms: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
            is_error: result.is_error,
        };
        self.codon.run.tell(event).await;
    }

    /// One model message: its tokens and its price come on top, and it counts as a message of the main conversation.
    async fn count(&mut self, usage: MessageUsage) {
        let codon_id = self.codon.entry.codon_id.clone();
        let run_id = self.codon.run.run_id.clone();
        let from_sub_agent = usage.parent_tool_use_id.is_some();
        self.meter.message(usage.usage, from_sub_agent);
        self.running.add_current_cost(usage.usage.cost);
        self.running.add_current_tokens(usage.usage.tokens.into());
        let costs = StateEvent::CostsIncremented {
            run_id: run_id.clone(),
            codon_id: codon_id.clone(),
            cost_delta: usage.usage.cost,
            tokens_delta: usage.usage.tokens,
        };
        drop(self.codon.run.transition(costs).await);
        if !from_sub_agent {
            let new_count = self.running.assistant_message_count + 1;
            self.running.set_assistant_message_count(new_count);
            let count = StateEvent::AssistantMessageCountUpdated {
                run_id,
                codon_id: codon_id.clone(),
                new_count,
            };
            drop(self.codon.run.transition(count).await);
        }
        let tokens = usage.usage.tokens;
        let event = wire::Event::TokenUsage {
            codon_id,
            input_tokens: tokens.input_tokens,
            output_tokens: tokens.output_tokens,
            cache_creation_tokens: tokens.cache_creation_tokens,
            cache_read_tokens: tokens.cache_read_tokens,
            total_cost: self.running.current_cost,
            model_id: Some(usage.model),
        };
        self.codon.run.tell(event).await;
    }

    async fn info(&self, message: String) {
        self.codon.run.tell(wire::Event::Info { message }).await;
    }
}
