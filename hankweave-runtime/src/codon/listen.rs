//! What an agent says becomes costs, counts and events.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hankweave_core::agent::{AgentEvent, ExitOutcome, MessageUsage, ToolResult};
use hankweave_core::budget::Meter;
use hankweave_core::codon::{Codon, Running};
use hankweave_core::cost::UsageTotals;
use hankweave_core::event::StateEvent;
use hankweave_core::wire::{self, AgentAction};
use tokio::time::Instant;

use super::context::CodonRun;
use crate::driver::EventReceiver;

/// Listens to the agent of one codon.
pub(super) struct Listener<'a> {
    codon: &'a CodonRun<'a>,
    pub(super) running: Codon<Running>,
    /// The tools that have not answered yet, with the moment of their use.
    open_tools: HashMap<String, (String, Instant)>,
    pub(super) meter: Meter,
    /// What the codon's earlier processes used.
    before: UsageTotals,
    /// The agent shortened its conversation because its context was full.
    pub(super) compacted: bool,
    /// The agent has answered and done nothing itself since; what it has left running may have.
    pub(super) has_answered: bool,
    /// When the events that are handled now had arrived.
    now: Instant,
}

/// What an agent has said without a pause.
pub(super) enum Heard {
    /// There may be more to come.
    Words,
    /// With this, a limit was exceeded; what came behind it was not heard.
    Overspent,
    /// Its end.
    End(ExitOutcome),
}

impl<'a> Listener<'a> {
    pub(super) fn new(
        codon: &'a CodonRun<'a>,
        running: Codon<Running>,
        meter: Meter,
        before: UsageTotals,
    ) -> Self {
        Self {
            codon,
            running,
            open_tools: HashMap::new(),
            meter,
            before,
            compacted: false,
            has_answered: false,
            now: Instant::now(),
        }
    }

    /// Handles `first` and the events that came with it.
    pub(super) async fn listen(&mut self, first: AgentEvent, more: &mut EventReceiver) -> Heard {
        self.now = Instant::now();
        let mut next = Some(first);
        while let Some(event) = next {
            let spends = matches!(event, AgentEvent::Usage(_));
            match event {
                AgentEvent::Finished(outcome) => return Heard::End(outcome),
                event => self.handle(event).await,
            }
            if spends && self.meter.exceeded(self.codon.begun.elapsed()).is_some() {
                return Heard::Overspent;
            }
            next = more.next_arrived();
        }
        Heard::Words
    }

    /// What the agent had said before it was stopped still counts.
    pub(super) async fn hear_the_rest(&mut self, more: &mut EventReceiver) -> Option<ExitOutcome> {
        while let Some(first) = more.recv().await {
            if let Heard::End(outcome) = self.listen(first, more).await {
                return Some(outcome);
            }
        }
        None
    }

    async fn handle(&mut self, event: AgentEvent) {
        self.has_answered = match &event {
            AgentEvent::Result(_) => true,
            event => self.has_answered && !is_work_of_its_own(event),
        };
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
                self.tell(event).await;
            }
            AgentEvent::Unparsed { start } => {
                let codon_id = self.codon.entry.codon_id.clone();
                let event = wire::Event::OutputUnparsed { codon_id, start };
                self.tell(event).await;
            }
            // An agent that has answered is about to end: what it reports is compared with its limits when it goes on, or has ended.
            AgentEvent::Result(result) => {
                let UsageTotals { cost, tokens, .. } = &self.before;
                let (cost, tokens) = (*cost + result.usage.cost, *tokens + result.usage.tokens);
                self.meter.settle(cost, tokens);
                if result.budget_exhausted {
                    self.meter.spent();
                }
            }
            // A second opening line after background work changes nothing.
            AgentEvent::SessionStarted { .. } | AgentEvent::Finished(_) => {}
        }
    }

    async fn act(&mut self, action: AgentAction, content: String) {
        let event = wire::Event::AssistantAction {
            codon_id: self.codon.entry.codon_id.clone(),
            action,
            content,
            tool_name: None,
            tool_input: None,
            tool_use_id: None,
        };
        self.tell(event).await;
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
        self.open_tools.insert(id, (name, self.now));
        self.tell(event).await;
    }

    async fn answer(&mut self, result: ToolResult) {
        let (name, begin) = self.open_tools.remove(&result.tool_use_id).unzip();
        let elapsed = begin.map_or(Duration::ZERO, |begin| self.now - begin);
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
        self.tell(event).await;
    }

    /// What is new of one model message: its tokens and its price come on top, and it counts once as a message of the main conversation.
    async fn count(&mut self, usage: MessageUsage) {
        let codon_id = self.codon.entry.codon_id.clone();
        let run_id = self.codon.run.run_id.clone();
        let from_sub_agent = usage.parent_tool_use_id.is_some();
        let added = usage.added;
        let is_lower_bound = usage.is_lower_bound || self.before.lower_bound;
        self.codon
            .cost_is_lower_bound
            .store(is_lower_bound, Ordering::Relaxed);
        self.meter.message(usage.usage, added, from_sub_agent);
        self.running.add_current_cost(added.cost);
        self.running.add_current_tokens(added.tokens.into());
        let costs = StateEvent::CostsIncremented {
            run_id: run_id.clone(),
            codon_id: codon_id.clone(),
            cost_delta: added.cost,
            tokens_delta: added.tokens,
        };
        drop(self.codon.run.transition(costs).await);
        if !from_sub_agent && usage.is_new {
            let new_count = self.running.assistant_message_count + 1;
            self.running.set_assistant_message_count(new_count);
            let count = StateEvent::AssistantMessageCountUpdated {
                run_id,
                codon_id: codon_id.clone(),
                new_count,
            };
            drop(self.codon.run.transition(count).await);
        }
        let event = wire::Event::TokenUsage {
            codon_id,
            input_tokens: added.tokens.input_tokens,
            output_tokens: added.tokens.output_tokens,
            cache_creation_tokens: added.tokens.cache_creation_tokens,
            cache_read_tokens: added.tokens.cache_read_tokens,
            total_cost: self.running.current_cost,
            cost_is_lower_bound: is_lower_bound.then_some(true),
            model_id: Some(usage.model),
        };
        self.tell(event).await;
    }

    async fn info(&mut self, message: String) {
        self.tell(wire::Event::Info { message }).await;
    }

    async fn tell(&mut self, event: wire::Event) {
        self.codon.run.tell(event).await;
    }
}

/// Whether the agent itself does something: not a sub-agent, and not a line that nobody can read.
fn is_work_of_its_own(event: &AgentEvent) -> bool {
    match event {
        AgentEvent::Message {
            parent_tool_use_id, ..
        }
        | AgentEvent::Thinking {
            parent_tool_use_id, ..
        }
        | AgentEvent::ToolUse {
            parent_tool_use_id, ..
        } => parent_tool_use_id.is_none(),
        AgentEvent::ToolResult(result) => result.parent_tool_use_id.is_none(),
        AgentEvent::Usage(usage) => usage.parent_tool_use_id.is_none(),
        AgentEvent::OutputTruncated { .. } | AgentEvent::Unparsed { .. } => false,
        AgentEvent::SessionStarted { .. }
        | AgentEvent::Compacted
        | AgentEvent::Retrying { .. }
        | AgentEvent::Result(_)
        | AgentEvent::Finished(_) => true,
    }
}
