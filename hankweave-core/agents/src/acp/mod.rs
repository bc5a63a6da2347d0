//! The Agent Client Protocol, version 1, from the side of the client, as a pure state machine.
//!
//! Input: the lines that an agent prints, JSON-RPC 2.0, one message a line. Output: [`AgentEvent`]s, and [`AcpAction`]s, which carry the messages to
//! the agent. One process gets one prompt (AGENT-23).
//!
//! The few messages that are needed are written by hand. The crate with the protocol's types rejects a whole line if one value in it is new. It also
//! adds crates that no other module needs. Agents are usually newer than their clients, and one odd line must not hide the others.

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
    /// The number of the request of ours that is not answered yet.
    awaited: u64,
    session: Option<SessionId>,
    orders: VecDeque<AcpAction>,
    speech: Speech,
    calls: OpenCalls,
    denied: Vec<PermissionDenial>,
    model: String,
    usage: UsageTotals,
    /// Cost of the session before this process, where known.
    cost_before: Usd,
    /// Money that the agent has reported since it started, held back until the tokens for the user's price are known.
    told: Usd,
    /// Cost of earlier processes whose output is in this log.
    settled: Usd,
    end: Option<End>,
}

/// Request that the agent got last.
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
    /// It ended its turn, which does not mean success.
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

/// How many denials are listed.
const MOST_DENIALS: usize = 100;

/// Largest length of a failure text in a message, in characters.
const MOST_WORDS: usize = 2_000;

impl AcpDecoder {
    /// The decoder of what is launched. Its first orders greet the agent.
    #[must_use]
    pub fn of(launch: &Launch) -> Self {
        let mut decoder = Self::new(Task::of(launch)).priced_by(launch.prices.clone());
        decoder.cost_before = launch.carried.unwrap_or(Usd::ZERO);
        decoder
    }

    /// Returns the decoder for the output that an earlier process left in its log, whether or not that process resumed a session. `carried` is what
    /// the session had cost before.
    #[must_use]
    pub fn of_log(prices: Arc<Prices>, resume: Option<SessionId>, carried: Usd) -> Self {
        let mut decoder = Self::new(Task::of_log(resume)).priced_by(prices);
        decoder.cost_before = carried;
        decoder
    }

    /// Sets the model to choose and the method to sign in with.
    #[must_use]
    pub fn with_model(mut self, model: Option<&str>, auth: Option<&str>) -> Self {
        self.task.ask(model, auth);
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
            told: Usd::ZERO,
            settled: Usd::ZERO,
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
                    Some(failure) => self.refused(failure, events),
                    None => self.answered(result.0.unwrap_or_default(), events),
                }
            }
            (None, Some(id)) if self.task.is_log && id.as_u64() == Some(0) => {
                self.begin_again();
                self.answered(result.0.unwrap_or_default(), events);
            }
            // An unknown notification, or an answer without a request.
            _ => {}
        }
    }

    /// Another process continues with the session and with the log.
    fn begin_again(&mut self) {
        self.stage = AcpStage::Greeting;
        self.awaited = 0;
        self.end = None;
        self.task.resume = self.session.take();
        self.calls = OpenCalls::default();
        let process = self.usage.cost.saturating_sub(self.settled);
        self.cost_before += process;
        self.settled = self.usage.cost;
    }

    fn is_ours(&self, session: Option<&str>) -> bool {
        let own = self.session.as_ref().or(self.task.resume.as_ref());
        own.is_some_and(|own| Some(own.as_str()) == session)
    }

    /// Handles an update of the session. An agent that loads one repeats all of it, and only what follows is new (AGENT-25).
    fn update(&mut self, update: SessionUpdate<'_>, events: &mut Vec<AgentEvent>) {
        let is_new = self.stage >= AcpStage::Working;
        match update.session_update.as_deref() {
            Some("usage_update") => self.spent(update.cost.0, is_new, events),
            _ if !is_new => {}
            Some(kind @ ("agent_message_chunk" | "agent_thought_chunk")) => {
                if let Some(text) = update.content["text"].as_str() {
                    let is_thought = kind == "agent_thought_chunk";
                    self.speech
                        .piece(text, is_thought, update.message_id.as_deref(), events);
                }
            }
            Some("tool_call" | "tool_call_update") => {
                self.speech.pause(events);
                self.calls.update(update, events);
            }
            _ => {}
        }
    }

    /// Records the total cost of the session, if the agent reports one.
    fn spent(&mut self, cost: Option<Cost<'_>>, is_new: bool, events: &mut Vec<AgentEvent>) {
        let Some(total) = cost.and_then(dollars) else {
            return;
        };
        if !is_new {
            self.cost_before = self.cost_before.max(total);
            return;
        }
        if self.task.is_fork && total < self.cost_before {
            // The copy counts from nothing.
            self.cost_before = Usd::ZERO;
        }
        let since = total.saturating_sub(self.cost_before);
        if self.prices.given_for(&self.model).is_some() {
            // The user's price counts, if the turn reports its tokens.
            self.told = since;
            return;
        }
        self.count_told(since, events);
    }

    /// Counts the money that the agent has reported since it started.
    fn count_told(&mut self, since: Usd, events: &mut Vec<AgentEvent>) {
        let added = since.saturating_sub(self.usage.cost.saturating_sub(self.settled));
        self.count(TokenUsage::ZERO, added, events);
    }

    fn count(&mut self, tokens: TokenUsage, cost: Usd, events: &mut Vec<AgentEvent>) {
        let added = ModelUsage { tokens, cost };
        if added == ModelUsage::default() {
            return;
        }
        let is_new = self.usage == UsageTotals::default();
        self.usage.add(&self.model, added);
        events.push(AgentEvent::Usage(MessageUsage {
            message_id: "turn".to_owned(),
            model: self.model.clone(),
            usage: ModelUsage {
                tokens: self.usage.tokens,
                cost: self.usage.cost,
            },
            added,
            is_new,
            is_lower_bound: true,
            // No limit in dollars is taken for such an agent.
            is_unpriced: false,
            is_sum: false,
            parent_tool_use_id: None,
        }));
    }

    /// The turn has ended.
    fn turned(&mut self, answer: &RpcResponse<'_>, events: &mut Vec<AgentEvent>) {
        self.speech.pause(events);
        match &answer.usage.0 {
            Some(usage) => self.used(usage, events),
            None => self.count_told(self.told, events),
        }
        let stop = answer.stop_reason.as_deref().unwrap_or_default().to_owned();
        self.end = Some(meaning(&stop));
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

    /// Counts the usage of a turn. A price that the user gives counts before the agent's own money, and that before our prices.
    fn used(&mut self, usage: &Usage, events: &mut Vec<AgentEvent>) {
        let tokens = usage.tokens();
        let billed = Billed {
            tokens,
            ..Billed::default()
        };
        let is_told = self.usage.cost > Usd::ZERO && self.prices.given_for(&self.model).is_none();
        let priced = billed.price(&self.model, &self.prices).filter(|_| !is_told);
        self.count(tokens, priced.unwrap_or(Usd::ZERO), events);
    }

    fn finish_work(&mut self) {
        self.stage = AcpStage::Over;
        self.orders.push_back(AcpAction::Over);
    }

    /// Ends the work because of something that the agent cannot do.
    fn give_up(&mut self, message: String) {
        self.end = Some(End::Failed {
            words: String::new(),
            message,
            retriable: Some(false),
        });
        self.finish_work();
    }

    /// The agent did not do what it was asked last.
    fn refused(&mut self, failure: RpcError<'_>, events: &mut Vec<AgentEvent>) {
        self.speech.pause(events);
        let code = failure.code.as_i64();
        let words = words_of(failure);
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
        let is_set_up =
            matches!(self.stage, AcpStage::ChoosingModel | AcpStage::SigningIn) || code == Some(SIGN_IN);
        self.end = Some(End::Failed {
            retriable: is_set_up.then_some(false),
            words,
            message,
        });
        self.finish_work();
    }

    fn totals(&self) -> UsageTotals {
        UsageTotals {
            lower_bound: true,
            ..self.usage.clone()
        }
    }

    fn failure(&self, words: &str, message: String, retriable: Option<bool>) -> Verdict {
        let context_exceeded = is_context_exceeded(words);
        let reason = reason(words, message, self.session.is_some(), context_exceeded);
        let retriable = retriable.unwrap_or(reason.retriable);
        Verdict::Failure {
            reason: hankweave_core::agent::FailureReason { retriable, ..reason },
            context_exceeded,
        }
    }

    /// Returns the verdict on an ended turn that nothing shows to be a success (AGENT-24). Errors of the provider end turns as well, and are then in the last
    /// message.
    fn doubt(&self) -> Verdict {
        let last: String = self.speech.last().trim().chars().take(MOST_WORDS).collect();
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

fn dollars(cost: Cost<'_>) -> Option<Usd> {
    let is_dollars = cost.currency.as_deref().is_none_or(|currency| currency == "USD");
    let amount = cost.amount.0.filter(|_| is_dollars)?;
    // Sums of binary fractions, such as 0.0069299999999999995.
    Usd::from_dollars((amount * 1e9).round() / 1e9).ok()
}

fn meaning(stop: &str) -> End {
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

fn words_of(failure: RpcError<'_>) -> String {
    let message = failure.message.into_owned().unwrap_or_default();
    let whole = match failure.data {
        Value::Null => message,
        Value::String(data) => format!("{message}: {data}"),
        data => format!("{message} {data}"),
    };
    whole.chars().take(MOST_WORDS).collect()
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
        let unless_shown = verdict.is_success().then(|| self.doubt());
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
