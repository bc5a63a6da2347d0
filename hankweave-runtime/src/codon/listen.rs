//! Handles the events of an agent for `run`: counts costs and messages, compares costs with the limits, and publishes events for clients.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hankweave_core::agent::{AgentEvent, BackgroundWork, ExitOutcome, MessageUsage, ToolResult};
use hankweave_core::budget::Meter;
use hankweave_core::codon::{Codon, Running};
use hankweave_core::cost::{TokenUsage, UsageTotals, Usd};
use hankweave_core::event::StateEvent;
use hankweave_core::wire::{self, ProgressKind};
use serde_json::Value;
use tokio::time::Instant;

use super::context::CodonRun;
use crate::driver::EventReceiver;

/// Handles the events of one codon's agent.
pub(super) struct AgentEventHandler<'a> {
    codon: &'a CodonRun<'a>,
    pub(super) running: Codon<Running>,
    /// The tools that have not returned yet: name and time of the call, by the id of the call.
    open_tools: HashMap<String, (String, Instant)>,
    /// Compares usage with the limits of the codon.
    pub(super) meter: Meter,
    /// Usage of the codon's earlier processes.
    before: UsageTotals,
    /// Whether the agent reports usage by message, which shows how full its context is.
    has_usage_by_message: bool,
    /// Whether the agent has shortened its conversation.
    pub(super) compacted: bool,
    /// Whether the agent, or a sub-agent of it, has called a tool.
    pub(super) used_tool: bool,
    /// Whether a model of the agent has written or thought something.
    pub(super) spoke: bool,
    pub(super) answer: Option<String>,
    /// The last answer in the requested form, if the agent reports that separately.
    pub(super) structured: Option<Value>,
    /// Whether the agent has answered and done nothing itself since; processes that it started may still work.
    pub(super) has_answered: bool,
    /// Whether the last answer reports an error of the agent's own.
    pub(super) reported_own_error: bool,
    /// Whether the agent's money was spent, by its own count.
    pub(super) is_spent: bool,
    /// Background work after which the agent will continue, as it has reported (AGENT-50).
    pub(super) background: Vec<BackgroundWork>,
    /// Arrival of the batch: the events that arrived together and are handled together.
    now: Instant,
    /// Cost and tokens of the batch; one state event records them for all its messages.
    unrecorded: Option<(Usd, TokenUsage)>,
    /// Number of messages that are recorded in the state.
    recorded_messages: u64,
    /// Events to publish once the usage of the batch is recorded.
    unpublished: Vec<wire::Event>,
}

/// Result of handling a batch of events.
pub(super) enum HandledEvents {
    /// More events may come.
    Events,
    /// A limit was exceeded; the later events of the batch were not handled.
    Overspent,
    /// The dollars are limited, and this model has no known price; the later events of the batch were not handled.
    Unpriced(String),
    /// The agent has ended.
    End(ExitOutcome),
}

impl<'a> AgentEventHandler<'a> {
    pub(super) fn new(
        codon: &'a CodonRun<'a>,
        running: Codon<Running>,
        meter: Meter,
        before: UsageTotals,
    ) -> Self {
        let driver = codon.run.drivers.get(codon.config.agent_name());
        Self {
            has_usage_by_message: driver.is_some_and(|driver| driver.capabilities().per_message_usage),
            recorded_messages: running.assistant_message_count,
            codon,
            running,
            open_tools: HashMap::new(),
            meter,
            before,
            compacted: false,
            used_tool: false,
            spoke: false,
            answer: None,
            structured: None,
            has_answered: false,
            reported_own_error: false,
            is_spent: false,
            background: Vec::new(),
            now: Instant::now(),
            unrecorded: None,
            unpublished: Vec::new(),
        }
    }

    /// Handles `first` and the events that arrived with it, then records and publishes them.
    pub(super) async fn listen(&mut self, first: AgentEvent, more: &mut EventReceiver) -> HandledEvents {
        self.now = Instant::now();
        let handled = self.handle_batch(first, more);
        self.record().await;
        handled
    }

    fn handle_batch(&mut self, first: AgentEvent, more: &mut EventReceiver) -> HandledEvents {
        let mut next = Some(first);
        while let Some(event) = next {
            let spends = matches!(event, AgentEvent::Usage(_));
            let unpriced = self.unpriced(&event);
            match event {
                AgentEvent::Finished(outcome) => return HandledEvents::End(outcome),
                event => self.handle(event),
            }
            if let Some(model) = unpriced {
                return HandledEvents::Unpriced(model);
            }
            if spends && self.is_overspent() {
                return HandledEvents::Overspent;
            }
            next = more.next_arrived();
        }
        HandledEvents::Events
    }

    /// Returns the model of this usage if dollars are limited and the usage has no price.
    fn unpriced(&self, event: &AgentEvent) -> Option<String> {
        match event {
            AgentEvent::Usage(usage) if usage.is_unpriced && self.meter.limits_dollars() => {
                Some(usage.model.clone())
            }
            _ => None,
        }
    }

    fn is_overspent(&mut self) -> bool {
        self.meter.sentinels(self.codon.sentinel_cost());
        self.meter.exceeded(self.codon.elapsed()).is_some()
    }

    /// Handles the remaining events of an agent that was stopped, because their usage still counts. Returns the end of the agent;
    /// `None` if the driver did not report it.
    pub(super) async fn listen_to_end(&mut self, more: &mut EventReceiver) -> Option<ExitOutcome> {
        while let Some(first) = more.recv().await {
            if let HandledEvents::End(outcome) = self.listen(first, more).await {
                return Some(outcome);
            }
        }
        None
    }

    /// Records the usage of the batch, then publishes its events.
    async fn record(&mut self) {
        let run = self.codon.run;
        let (run_id, codon_id) = (&run.run_id, &self.codon.entry.codon_id);
        if let Some((cost_delta, tokens_delta)) = self.unrecorded.take() {
            let costs = StateEvent::CostsIncremented {
                run_id: run_id.clone(),
                codon_id: codon_id.clone(),
                cost_delta,
                tokens_delta,
            };
            drop(run.transition(costs).await);
        }
        let new_count = self.running.assistant_message_count;
        if new_count != self.recorded_messages {
            self.recorded_messages = new_count;
            let count = StateEvent::AssistantMessageCountUpdated {
                run_id: run_id.clone(),
                codon_id: codon_id.clone(),
                new_count,
            };
            drop(run.transition(count).await);
        }
        for event in self.unpublished.drain(..) {
            run.publish(event).await;
        }
    }

    fn handle(&mut self, event: AgentEvent) {
        self.has_answered = match &event {
            AgentEvent::Result(_) => true,
            event => self.has_answered && !is_own_work(event),
        };
        let codon_id = self.codon.entry.codon_id.clone();
        let event = match event {
            AgentEvent::Usage(usage) => self.count(usage),
            AgentEvent::ToolResult(result) => self.tool_result(result),
            AgentEvent::Background(works) => {
                self.background = works;
                return;
            }
            // An agent that has answered is about to end. So the totals of its answer are only set here, and compared with the
            // limits when its next usage or its end is handled.
            AgentEvent::Result(result) => {
                let UsageTotals { cost, tokens, .. } = &self.before;
                let (cost, tokens) = (*cost + result.usage.cost, *tokens + result.usage.tokens);
                self.meter.set_totals(cost, tokens);
                self.reported_own_error = result.is_own_error();
                // A later answer without the requested form, such as one after background work, does not replace the form.
                self.structured = result.structured.or_else(|| self.structured.take());
                self.answer = Some(result.text).filter(|text| !text.trim().is_empty());
                if result.budget_exhausted {
                    self.is_spent = true;
                    self.meter.spent();
                }
                return;
            }
            event => {
                self.note(&event);
                // Some events have no counterpart for clients, such as the start of a session that is reported again after background work.
                match wire::Event::of_agent(codon_id, event) {
                    Some(event) => event,
                    None => return,
                }
            }
        };
        self.unpublished.push(event);
    }

    /// Notes what the end of the work or later events need, and reports until when the agent waits for a retry.
    fn note(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::Message { .. } | AgentEvent::Thinking { .. } => self.spoke = true,
            AgentEvent::ToolUse { id, name, .. } => {
                self.used_tool = true;
                self.open_tools.insert(id.clone(), (name.clone(), self.now));
            }
            AgentEvent::Compacted => self.compacted = true,
            AgentEvent::Retrying {
                attempt,
                max_retries,
                error,
                delay_ms: Some(delay),
                ..
            } => self.report_retry(*attempt, *max_retries, error.clone(), *delay),
            _ => {}
        }
    }

    /// Reports until when the agent waits for a retry.
    fn report_retry(&mut self, attempt: u64, most: Option<u64>, why: Option<String>, delay_ms: u64) {
        let now = self.codon.run.world.clock.now();
        let event = wire::Event::Progress {
            codon_id: Some(self.codon.entry.codon_id.clone()),
            kind: ProgressKind::Retry,
            subject: why,
            done: Some(attempt),
            total: most,
            ends_at: Some(now.after(Duration::from_millis(delay_ms))),
        };
        self.unpublished.push(event);
    }

    /// Returns the number of tokens that fit into the context of the answering model, `model`. A suffix in brackets, which may stand for a
    /// larger context, is only in the requested name, so that name is looked up first.
    fn window(&self, model: &str) -> Option<u64> {
        let prices = &self.codon.run.options.prices;
        let requested = self.codon.config.model.as_deref();
        let with_suffix = requested.filter(|requested| requested.ends_with(']'));
        with_suffix
            .and_then(|requested| prices.context_window(requested))
            .or_else(|| prices.context_window(model))
    }

    fn tool_result(&mut self, result: ToolResult) -> wire::Event {
        let (name, called_at) = self.open_tools.remove(&result.tool_use_id).unzip();
        let elapsed = called_at.map_or(Duration::ZERO, |called_at| self.now - called_at);
        wire::Event::ToolResult {
            codon_id: self.codon.entry.codon_id.clone(),
            tool_use_id: result.tool_use_id,
            tool_name: result.tool_name.or(name).unwrap_or_default(),
            result: result.text,
            truncated: result.truncated,
            original_length: result.original_length,
            execution_time_ms: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
            is_error: result.is_error,
            parent_tool_use_id: result.parent_tool_use_id,
        }
    }

    /// Adds the new tokens and the new cost that a report about one model message has. A message of the main conversation is
    /// counted with its first report.
    fn count(&mut self, usage: MessageUsage) -> wire::Event {
        let codon_id = self.codon.entry.codon_id.clone();
        let from_sub_agent = usage.parent_tool_use_id.is_some();
        let added = usage.added;
        let is_lower_bound = usage.is_lower_bound || self.before.lower_bound;
        self.codon
            .cost_is_lower_bound
            .store(is_lower_bound, Ordering::Relaxed);
        let is_of_context = self.has_usage_by_message && !from_sub_agent && !usage.is_sum;
        self.meter.message(usage.usage, added, !is_of_context);
        self.running.add_current_cost(added.cost);
        self.running.add_current_tokens(added.tokens.into());
        self.codon.allowance.set_agent_cost(self.running.current_cost);
        let (cost, tokens) = self.unrecorded.get_or_insert_default();
        *cost += added.cost;
        *tokens += added.tokens;
        if !from_sub_agent && usage.is_new {
            let new_count = self.running.assistant_message_count + 1;
            self.running.set_assistant_message_count(new_count);
        }
        let so_far = self.running.current_tokens.usage;
        wire::Event::TokenUsage {
            codon_id,
            input_tokens: so_far.input_tokens,
            output_tokens: so_far.output_tokens,
            cache_creation_tokens: so_far.cache_creation_tokens,
            cache_read_tokens: so_far.cache_read_tokens,
            total_cost: self.running.current_cost,
            cost_is_lower_bound: is_lower_bound.then_some(true),
            message: Some(usage.usage.tokens),
            context_tokens: is_of_context.then(|| prompt(usage.usage.tokens)),
            context_window: self.window(&usage.model).filter(|_| is_of_context),
            model_id: Some(usage.model),
        }
    }
}

/// Returns the tokens of the prompt, including caches.
fn prompt(tokens: TokenUsage) -> u64 {
    tokens.total().saturating_sub(tokens.output_tokens)
}

/// Whether the agent itself does something: not a sub-agent, and not a line that cannot be decoded.
fn is_own_work(event: &AgentEvent) -> bool {
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
        AgentEvent::OutputTruncated { .. } | AgentEvent::Unparsed { .. } | AgentEvent::Background(_) => false,
        _ => true,
    }
}
