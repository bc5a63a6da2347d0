//! The Agent Client Protocol, version 1, from the side of the client, as a pure state machine.
//!
//! Input: the lines that an agent prints, JSON-RPC 2.0, one message a line. Output: [`AgentEvent`]s, and [`AcpAction`]s, which carry the messages to
//! the agent. One process gets one prompt (AGENT-23). `ask` has our requests, from the greeting to the prompt; `serve` answers the agent's requests;
//! `calls` follows its tool calls.
//!
//! The types of the few needed messages are written by hand, because agents are usually newer than their clients: the crate with the protocol's types
//! would reject a whole line for one new value in it. It would also add crates that no other module needs.

mod ask;
mod calls;
mod line;
mod serve;

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::decoder::{AgentDecoder, AgentLine, ProcessEnd};
use crate::launch::Launch;
use crate::records::RecordsScope;
use crate::speech::Speech;
use hankweave_core::agent::classify::{is_context_exceeded, reason, without_result};
use hankweave_core::agent::{AgentEvent, AgentResult, MessageUsage, PermissionDenial};
use hankweave_core::agent::{ExitOutcome, Verdict};
use hankweave_core::cost::pricing::Prices;
use hankweave_core::cost::{Billed, ModelUsage, TokenUsage, UsageTotals, Usd};
use hankweave_core::id::SessionId;

use ask::Task;
use calls::OpenCalls;
use line::{Cost, RpcError, RpcMessage, RpcResponse, SessionUpdate, Usage};

pub use crate::actions::AcpAction;

/// Model name of a run that uses the model of the agent's own settings.
pub const OWN_MODEL: &str = "acp";

/// Speaks with one process.
#[derive(Debug)]
pub struct AcpDecoder {
    task: Task,
    prices: Arc<Prices>,
    stage: AcpStage,
    /// Id of our last request, whose answer is awaited.
    awaited: u64,
    /// The session, once it is open.
    session: Option<SessionId>,
    orders: VecDeque<AcpAction>,
    speech: Speech,
    calls: OpenCalls,
    /// Permissions denied and not yet reported.
    denied: Vec<PermissionDenial>,
    /// Name under which usage counts: the model asked for, else the one that the agent reports.
    model: String,
    /// Usage of this process, or of all processes in the log.
    usage: UsageTotals,
    /// Cost of the session before this process, where known.
    cost_before: Usd,
    /// Cost that the agent has reported for this process, if the user has set a price for the model. Held back until the turn ends: the user's price
    /// counts if the end reports tokens, else this cost.
    reported_cost: Usd,
    /// Part of the cost in `usage` that belongs to earlier processes in the log.
    earlier_in_log: Usd,
    /// Outcome, once the work has ended.
    end: Option<End>,
}

/// Our last request, whose answer is awaited; `Over` when the work has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum AcpStage {
    Greeting,
    SigningIn,
    Opening,
    ChoosingModel,
    Working,
    Over,
}

/// End of the agent's work, as the agent reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum End {
    /// The agent ended its turn normally, which is no proof of success.
    Turn,
    /// Something went wrong.
    Failed {
        /// Text that shows the kind of failure.
        words: String,
        /// Message for people.
        message: String,
        /// Whether another attempt may help; `None` leaves the decision to `words`.
        retriable: Option<bool>,
    },
}

/// Largest number of denials in a result.
const MOST_DENIALS: usize = 100;

/// Largest length of a failure text in a message, in characters.
const MAX_FAILURE_CHARS: usize = 2_000;

impl AcpDecoder {
    /// Returns the decoder for a launch. Its first order greets the agent.
    #[must_use]
    pub fn of(launch: &Launch) -> Self {
        let mut decoder = Self::new(Task::of(launch)).priced_by(launch.prices.clone());
        decoder.cost_before = launch.carried.unwrap_or(Usd::ZERO);
        decoder
    }

    /// Returns the decoder for the output that an earlier process left in its log. `resume` is the session that the process continued, if any;
    /// `carried` is what the session had cost before that process.
    #[must_use]
    pub fn of_log(prices: Arc<Prices>, resume: Option<SessionId>, carried: Usd) -> Self {
        let mut decoder = Self::new(Task::of_log(resume)).priced_by(prices);
        decoder.cost_before = carried;
        decoder
    }

    /// Sets the model to choose and the method to sign in with.
    #[must_use]
    pub fn with_model(mut self, model: Option<&str>, auth: Option<&str>) -> Self {
        self.task.set_model_and_auth(model, auth);
        if let Some(model) = &self.task.model {
            self.model.clone_from(model);
        }
        self
    }

    fn new(task: Task) -> Self {
        let mut decoder = Self {
            model: task.model.clone().unwrap_or_else(|| OWN_MODEL.to_owned()),
            task,
            prices: Arc::default(),
            stage: AcpStage::Greeting,
            awaited: 0,
            session: None,
            orders: VecDeque::new(),
            speech: Speech::default(),
            calls: OpenCalls::default(),
            denied: Vec::new(),
            usage: UsageTotals::default(),
            cost_before: Usd::ZERO,
            reported_cost: Usd::ZERO,
            earlier_in_log: Usd::ZERO,
            end: None,
        };
        decoder.greet();
        decoder
    }

    fn priced_by(self, prices: Arc<Prices>) -> Self {
        Self { prices, ..self }
    }

    fn handle_message(&mut self, line: RpcMessage<'_>, events: &mut Vec<AgentEvent>) {
        let RpcMessage {
            id,
            method,
            params,
            result,
            error,
        } = line;
        let params = params.0.unwrap_or_default();
        match (method.into_owned(), id) {
            (Some(method), Some(id)) => self.serve(&method, id, params, events),
            (Some(method), None) if method == "session/update" => {
                let is_ours = self.is_ours(params.session_id.as_deref());
                if let Some(update) = params.update.0.filter(|_| is_ours) {
                    self.update(update, events);
                }
            }
            (None, Some(id)) if id.as_u64() == Some(self.awaited) && self.stage < AcpStage::Over => {
                match error.0 {
                    Some(failure) => self.handle_error(failure, events),
                    None => self.handle_answer(result.0.unwrap_or_default(), events),
                }
            }
            // In a log, an answer to a second greeting (request 0) means that another process starts here.
            (None, Some(id)) if self.task.is_log && id.as_u64() == Some(0) => {
                self.restart();
                self.handle_answer(result.0.unwrap_or_default(), events);
            }
            // An unknown notification, or an answer to no open request.
            _ => {}
        }
    }

    /// Prepares for the output of another process, which continues the session in the same log.
    fn restart(&mut self) {
        self.stage = AcpStage::Greeting;
        self.awaited = 0;
        self.end = None;
        self.task.resume = self.session.take();
        self.calls = OpenCalls::default();
        let cost_of_process = self.usage.cost.saturating_sub(self.earlier_in_log);
        self.cost_before += cost_of_process;
        self.earlier_in_log = self.usage.cost;
        self.reported_cost = Usd::ZERO;
    }

    /// Whether this is our session or, before that is open, the one to continue.
    fn is_ours(&self, session: Option<&str>) -> bool {
        let own = self.session.as_ref().or(self.task.resume.as_ref());
        own.is_some_and(|own| Some(own.as_str()) == session)
    }

    /// Handles an update of the session. An agent that loads a session first repeats all its updates; only updates after our prompt are new (AGENT-25).
    fn update(&mut self, update: SessionUpdate<'_>, events: &mut Vec<AgentEvent>) {
        let is_new = self.stage >= AcpStage::Working;
        match update.session_update.as_deref() {
            Some("usage_update") => self.record_session_cost(update.cost.0, is_new, events),
            _ if !is_new => {}
            Some(kind @ ("agent_message_chunk" | "agent_thought_chunk")) => {
                if let Some(text) = update.content["text"].as_str() {
                    let is_thought = kind == "agent_thought_chunk";
                    self.speech
                        .add(text, is_thought, update.message_id.as_deref(), events);
                }
            }
            Some("tool_call" | "tool_call_update") => {
                self.speech.flush(events);
                self.calls.update(update, events);
            }
            _ => {}
        }
    }

    /// Records the total cost of the session, if the agent reports one.
    fn record_session_cost(&mut self, cost: Option<Cost<'_>>, is_new: bool, events: &mut Vec<AgentEvent>) {
        let Some(total) = cost.and_then(dollars) else {
            return;
        };
        // Before our prompt, an agent that loads a session repeats what the session has cost already.
        if !is_new {
            self.cost_before = self.cost_before.max(total);
            return;
        }
        if self.task.is_fork && total < self.cost_before {
            // The cost of a copied session starts at zero again.
            self.cost_before = Usd::ZERO;
        }
        let cost_of_process = total.saturating_sub(self.cost_before);
        if self.prices.given_for(&self.model).is_some() {
            // The end of the turn may report tokens, and then the user's price counts.
            self.reported_cost = cost_of_process;
            return;
        }
        self.count_reported(cost_of_process, events);
    }

    /// Counts the increase of the cost that the agent has reported for this process.
    fn count_reported(&mut self, cost_of_process: Usd, events: &mut Vec<AgentEvent>) {
        let counted = self.usage.cost.saturating_sub(self.earlier_in_log);
        self.count(TokenUsage::ZERO, cost_of_process.saturating_sub(counted), events);
    }

    /// Adds usage to the totals and reports it, unless there is none.
    fn count(&mut self, tokens: TokenUsage, cost: Usd, events: &mut Vec<AgentEvent>) {
        let added = ModelUsage { tokens, cost };
        if added == ModelUsage::default() {
            return;
        }
        let is_new = self.usage == UsageTotals::default();
        self.usage.add(&self.model, added);
        events.push(AgentEvent::Usage(MessageUsage {
            // ACP reports no usage by message, so all of it counts as one message.
            message_id: "turn".to_owned(),
            model: self.model.clone(),
            usage: ModelUsage {
                tokens: self.usage.tokens,
                cost: self.usage.cost,
            },
            added,
            is_new,
            is_lower_bound: true,
            // A hank cannot set a limit in dollars for an ACP agent, so nothing needs this mark.
            is_unpriced: false,
            is_sum: false,
            parent_tool_use_id: None,
        }));
    }

    /// Handles the answer to our prompt, which ends the turn.
    fn end_turn(&mut self, answer: &RpcResponse<'_>, events: &mut Vec<AgentEvent>) {
        self.speech.flush(events);
        match &answer.usage.0 {
            Some(usage) => self.count_turn(usage, events),
            None => self.count_reported(self.reported_cost, events),
        }
        let stop = answer.stop_reason.as_deref().unwrap_or_default().to_owned();
        self.end = Some(end_of_turn(&stop));
        let success = stop == "end_turn";
        let text = match &self.end {
            Some(End::Failed { message, .. }) => message.clone(),
            _ => self.speech.last().to_owned(),
        };
        events.push(AgentEvent::Result(AgentResult {
            success,
            text,
            terminal_reason: Some(stop),
            usage: self.totals(),
            permission_denials: std::mem::take(&mut self.denied),
            ..AgentResult::default()
        }));
        self.finish_work();
    }

    /// Counts the tokens of a turn. Their cost is that of the user's price, else what the agent itself has reported, else that of our price list.
    fn count_turn(&mut self, usage: &Usage, events: &mut Vec<AgentEvent>) {
        let tokens = usage.tokens();
        let billed = Billed {
            tokens,
            ..Billed::default()
        };
        let has_reported_cost =
            self.usage.cost > self.earlier_in_log && self.prices.given_for(&self.model).is_none();
        let priced = billed
            .price(&self.model, &self.prices)
            .filter(|_| !has_reported_cost);
        self.count(tokens, priced.unwrap_or(Usd::ZERO), events);
    }

    fn finish_work(&mut self) {
        self.stage = AcpStage::Over;
        self.orders.push_back(AcpAction::Over);
    }

    /// Ends the work because the agent lacks something that is needed.
    fn give_up(&mut self, message: String) {
        self.end = Some(End::Failed {
            words: String::new(),
            message,
            retriable: Some(false),
        });
        self.finish_work();
    }

    /// Handles an error as the answer to our last request: the work has failed.
    fn handle_error(&mut self, failure: RpcError<'_>, events: &mut Vec<AgentEvent>) {
        self.speech.flush(events);
        let code = failure.code.as_i64();
        let words = error_words(failure);
        let message = match self.stage {
            AcpStage::Working => format!("the agent gave up: {words}"),
            AcpStage::ChoosingModel => format!("the agent did not take the model `{}`: {words}", self.model),
            AcpStage::SigningIn => format!("signing in did not work: {words}"),
            _ if code == Some(SIGN_IN) => format!(
                "the agent wants somebody to sign in first: {words}{}",
                self.task.sign_in_hint()
            ),
            _ => format!("the agent began no session: {words}"),
        };
        // Another attempt would meet the same settings.
        let is_set_up =
            matches!(self.stage, AcpStage::ChoosingModel | AcpStage::SigningIn) || code == Some(SIGN_IN);
        self.end = Some(End::Failed {
            retriable: is_set_up.then_some(false),
            words,
            message,
        });
        self.finish_work();
    }

    /// Returns the usage so far, which is always a lower bound for an ACP agent.
    fn totals(&self) -> UsageTotals {
        UsageTotals {
            lower_bound: true,
            ..self.usage.clone()
        }
    }

    /// Returns a failure whose kind follows from `words`; `retriable` overrides the answer that they give.
    fn failure(&self, words: &str, message: String, retriable: Option<bool>) -> Verdict {
        let context_exceeded = is_context_exceeded(words);
        let reason = reason(words, message, self.session.is_some(), context_exceeded);
        let retriable = retriable.unwrap_or(reason.retriable);
        Verdict::Failure {
            reason: hankweave_core::agent::FailureReason { retriable, ..reason },
            context_exceeded,
        }
    }

    /// Returns the verdict on an ended turn if nothing else proves a success (AGENT-24). A turn also ends after an error of the provider, which is then in
    /// the last message, so the words of that message show the kind of failure.
    fn unproven_verdict(&self) -> Verdict {
        let last: String = self
            .speech
            .last()
            .trim()
            .chars()
            .take(MAX_FAILURE_CHARS)
            .collect();
        let said = match last.as_str() {
            "" => "it said nothing".to_owned(),
            last => format!("its last words: {last}"),
        };
        let message = format!(
            "the agent ended its turn without a word of success, and nothing shows one: no check has passed, and no checkpointed file has changed; {said}"
        );
        self.failure(&last, message, None)
    }
}

/// Error code of ACP: the user has to sign in first.
const SIGN_IN: i64 = -32000;

/// Returns the cost, unless it is in another currency than US dollars.
fn dollars(cost: Cost<'_>) -> Option<Usd> {
    let is_dollars = cost.currency.as_deref().is_none_or(|currency| currency == "USD");
    let amount = cost.amount.0.filter(|_| is_dollars)?;
    // Agents print sums of binary fractions, such as 0.0069299999999999995.
    Usd::from_dollars((amount * 1e9).round() / 1e9).ok()
}

/// Returns the outcome for the agent's reason to stop.
fn end_of_turn(stop: &str) -> End {
    let failed = |message: String, retriable| End::Failed {
        words: String::new(),
        message,
        retriable: Some(retriable),
    };
    match stop {
        "end_turn" => End::Turn,
        "max_tokens" => failed(
            "the answer of the agent was cut off at its output limit (max_tokens)".to_owned(),
            true,
        ),
        "max_turn_requests" => failed(
            "the agent has asked its model as often as it may in one turn (max_turn_requests)".to_owned(),
            true,
        ),
        "refusal" => failed("the agent refused to continue (refusal)".to_owned(), false),
        "cancelled" => failed("the turn of the agent was cancelled".to_owned(), true),
        other => failed(
            format!("the agent ended its turn with `{other}`, which version 1 of the protocol does not know"),
            false,
        ),
    }
}

/// Returns message and data of an error as one text.
fn error_words(failure: RpcError<'_>) -> String {
    let message = failure.message.into_owned().unwrap_or_default();
    let whole = match failure.data {
        Value::Null => message,
        Value::String(data) => format!("{message}: {data}"),
        data => format!("{message} {data}"),
    };
    whole.chars().take(MAX_FAILURE_CHARS).collect()
}

impl AgentDecoder for AcpDecoder {
    fn decode(&mut self, line: AgentLine<'_>, events: &mut Vec<AgentEvent>) {
        if let Some(line) = line.read(events) {
            self.handle_message(line, events);
        }
    }

    fn take_orders(&mut self) -> Vec<AcpAction> {
        self.orders.drain(..).collect()
    }

    fn finish(&mut self, end: ProcessEnd) -> ExitOutcome {
        let verdict = match &self.end {
            Some(End::Turn) => Verdict::Success,
            Some(End::Failed {
                words,
                message,
                retriable,
            }) => self.failure(words, message.clone(), *retriable),
            None => {
                let (words, message) = without_result(end.exit, &end.stderr_tail, self.session.is_some());
                self.failure(words, message, None)
            }
        };
        let unless_shown = verdict.is_success().then(|| self.unproven_verdict());
        ExitOutcome {
            unless_shown,
            ..end.outcome(verdict, self.totals(), self.end.is_some())
        }
    }

    fn usage(&self) -> UsageTotals {
        self.totals()
    }

    /// ACP agents report everything on their output. Records are needed only if the process ended without a result that was read.
    fn records_needed(&self, records: RecordsScope) -> Option<&SessionId> {
        let wanted = records == RecordsScope::Whole && self.end.is_none();
        self.session.as_ref().filter(|_| wanted)
    }
}

#[cfg(test)]
mod tests;
