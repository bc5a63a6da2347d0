//! The line protocol of codex, as a pure state machine.
//!
//! Input: the lines of `codex exec --json`. Output: [`AgentEvent`]s. The meaning of each line was measured (AGENT-18). The stream names no model, no
//! money and no shortened conversation. It reports tokens only at its end. The rollout file of the session has the rest (`rollout`).

mod line;
mod rollout;

use std::sync::Arc;

use serde_json::{Value, json};

use crate::decoder::{AgentDecoder, AgentLine, ProcessEnd, session_started};
use crate::launch::Launch;
use crate::open_tools::OpenTools;
use crate::records::{AgentRecords, RecordedMessage, RecordsScope};
use hankweave_core::agent::classify::{failure, is_context_exceeded, without_result};
use hankweave_core::agent::{AgentEvent, AgentResult, MessageUsage, ToolResult};
use hankweave_core::agent::{ExitOutcome, Verdict};
use hankweave_core::cost::pricing::Prices;
use hankweave_core::cost::{Billed, ProcessUsage, ServiceTier, TokenUsage, UsageConfidence, UsageTotals};
use hankweave_core::id::SessionId;

use line::{Item, StreamLine};
pub use rollout::Rollout;

/// Model name of a run that uses the model of codex's own settings.
pub const OWN_MODEL: &str = "codex";

/// Number of sub-agents whose rollout files are read.
const MAX_SUB_AGENTS: usize = 128;

/// Reads the output of one codex process.
#[derive(Debug)]
pub struct CodexDecoder {
    model: Option<String>,
    session: Option<SessionId>,
    open_tools: OpenTools,
    /// The last text of the model.
    answer: String,
    /// A turn has begun and not ended.
    in_turn: bool,
    /// A connection was lost that may have carried half an answer.
    given_up: bool,
    /// Sub-agents have worked. Nothing reports whether one of their answers was cut off (AGENT-19).
    helped: bool,
    /// Their sessions.
    sub_agents: Vec<SessionId>,
    /// A line has come since the rollout file was read.
    news: bool,
    /// The rollout file was read to its end, after the end.
    recalled: bool,
    /// The rollout file was found.
    recorded: bool,
    /// The position of the rollout file is unknown.
    unrecorded: bool,
    usage: ProcessUsage,
    /// Number of web searches in the stream, and number of them in the rollout file.
    searches: (u64, u64),
    /// Tier of the response that was read last.
    tier: ServiceTier,
    /// All tokens of the session, its earlier processes included.
    stated: Option<TokenUsage>,
    /// Tokens of its earlier processes, where known.
    before: Option<TokenUsage>,
    /// A result that waits for what it used.
    waiting: Option<AgentResult>,
    /// The end of the last turn, or what went wrong outside of one.
    ended: Option<AgentResult>,
    complaint: Option<String>,
}

impl CodexDecoder {
    /// Returns a decoder for one process. `resumed` means that the process continues an earlier session, whose tokens it repeats.
    #[must_use]
    pub fn new(resumed: bool) -> Self {
        Self {
            model: None,
            session: None,
            open_tools: OpenTools::default(),
            answer: String::new(),
            in_turn: false,
            given_up: false,
            helped: false,
            sub_agents: Vec::new(),
            news: false,
            recalled: false,
            recorded: false,
            unrecorded: false,
            usage: ProcessUsage::default(),
            searches: (0, 0),
            tier: ServiceTier::Standard,
            stated: None,
            before: (!resumed).then_some(TokenUsage::ZERO),
            waiting: None,
            ended: None,
            complaint: None,
        }
    }

    /// The decoder of what is launched.
    #[must_use]
    pub fn of(launch: &Launch) -> Self {
        Self::new(launch.resume.is_some())
            .with_model(&launch.model)
            .priced_by(launch.prices.clone())
    }

    /// Sets the requested model, which otherwise only the rollout file names.
    #[must_use]
    pub fn with_model(self, model: &str) -> Self {
        let model = Some(model).filter(|model| *model != OWN_MODEL);
        Self {
            model: model.map(str::to_owned),
            ..self
        }
    }

    /// Sets the usage of the session's earlier processes.
    #[must_use]
    pub fn with_earlier_usage(self, before: TokenUsage) -> Self {
        Self {
            before: Some(before),
            ..self
        }
    }

    /// Uses `prices` instead of the list prices.
    #[must_use]
    pub fn priced_by(mut self, prices: Arc<Prices>) -> Self {
        self.usage = ProcessUsage::priced_by(prices);
        self
    }

    /// Marks a process whose rollout file cannot be found.
    #[must_use]
    pub fn unrecorded(self) -> Self {
        Self {
            unrecorded: true,
            ..self
        }
    }

    fn handle_line(&mut self, line: StreamLine<'_>, events: &mut Vec<AgentEvent>) {
        self.news = true;
        match line.kind.as_deref() {
            Some("thread.started") => {
                let (id, model) = (line.thread_id.into_owned(), self.model.clone());
                events.extend(session_started(&mut self.session, id, model));
            }
            Some("turn.started") => self.in_turn = true,
            Some("turn.completed") => {
                self.stated = line.usage.0.map(|usage| usage.tokens()).or(self.stated);
                let text = self.answer.clone();
                self.end_turn(text, true, events);
            }
            Some("turn.failed") => {
                let words = line.error.0.and_then(|error| error.message.into_owned());
                let words = words.or(self.complaint.take()).unwrap_or_default();
                self.end_turn(words, false, events);
            }
            Some("error") => events.extend(self.complained(line.message.into_owned())),
            Some("item.started") => {
                if let Some(item) = line.item.0 {
                    self.item_started(&item, events);
                }
            }
            Some("item.completed") => {
                if let Some(item) = line.item.0 {
                    self.done(item, events);
                }
            }
            _ => {}
        }
    }

    /// Reads an error line. `Reconnecting... 1/5 (why)` is a retry; the turn that fails repeats any other error.
    fn complained(&mut self, words: Option<String>) -> Option<AgentEvent> {
        let words = words?;
        let Some((attempt, max_retries, why)) = retry(&words) else {
            self.complaint = Some(words);
            return None;
        };
        let status = status(why);
        self.given_up |= was_cut_off(why);
        Some(AgentEvent::Retrying {
            attempt,
            max_retries,
            delay_ms: None,
            status,
            error: Some(why.to_owned()),
        })
    }

    fn end_turn(&mut self, text: String, success: bool, events: &mut Vec<AgentEvent>) {
        self.in_turn = false;
        self.given_up |= !success && was_cut_off(&text);
        let context_exceeded = !success && is_context_exceeded(&text);
        let result = AgentResult {
            success,
            context_exceeded,
            error_status: if success { None } else { status(&text) },
            text,
            usage: self.totals(),
            ..AgentResult::default()
        };
        self.ended = Some(result.clone());
        match self.unrecorded {
            true => events.push(AgentEvent::Result(result)),
            false => self.waiting = Some(result),
        }
    }

    fn item_started(&mut self, item: &Item<'_>, events: &mut Vec<AgentEvent>) {
        let (Some((name, input)), Some(id)) = (tool(item), item.id.as_deref()) else {
            return;
        };
        self.helped |= item.kind.as_deref() == Some("collab_tool_call");
        self.open_tools.insert(id, &name);
        events.push(AgentEvent::tool_use(id.to_owned(), name, input));
    }

    fn done(&mut self, item: Item<'_>, events: &mut Vec<AgentEvent>) {
        match item.kind.as_deref() {
            Some("agent_message") => {
                let text = item.text.into_owned().unwrap_or_default();
                self.answer.clone_from(&text);
                events.push(AgentEvent::message(text));
            }
            Some("reasoning") => {
                let text = item.text.into_owned().unwrap_or_default();
                events.push(AgentEvent::thinking(text));
            }
            kind => {
                let is_search = kind == Some("web_search")
                    && item.action.0.as_ref().is_some_and(|action| action.is_search());
                self.searches.0 += u64::from(is_search);
                self.tool_done(item, events);
            }
        }
    }

    fn tool_done(&mut self, item: Item<'_>, events: &mut Vec<AgentEvent>) {
        let (Some((name, _)), Some(id)) = (tool(&item), item.id.as_deref()) else {
            return;
        };
        let id = id.to_owned();
        self.remember_sub_agents(&item);
        let known = self.open_tools.remove(&id);
        if known.is_none() {
            // Some have no line for their start.
            self.item_started(&item, events);
            self.open_tools.remove(&id);
        }
        let is_error = !matches!(item.status.as_deref(), None | Some("completed"));
        events.push(AgentEvent::ToolResult(ToolResult::new(
            id,
            Some(name),
            answer(item),
            is_error,
        )));
    }

    fn remember_sub_agents(&mut self, item: &Item<'_>) {
        for id in &item.receiver_thread_ids.0 {
            let session = id.as_deref().and_then(|id| SessionId::new(id).ok());
            if let Some(session) = session
                && self.sub_agents.len() < MAX_SUB_AGENTS
                && !self.sub_agents.contains(&session)
            {
                self.sub_agents.push(session);
            }
        }
    }

    fn is_lower_bound(&self) -> bool {
        let unknown = self.before.is_none() && self.stated.is_some();
        let untold = self.stated.is_none() && !self.recorded && self.ended.is_some();
        self.in_turn || self.given_up || self.helped || unknown || untold || self.usage.is_lower_bound()
    }

    /// Returns the session's usage beyond the reported responses, because the rollout file was not found or ends early.
    fn rest(&self) -> Billed {
        let tokens = match (self.stated, self.before) {
            (Some(stated), Some(before)) => {
                let told = before + self.usage.totals().tokens;
                stated.at_least(told) - told
            }
            _ => TokenUsage::ZERO,
        };
        let (told, recorded) = self.searches;
        Billed {
            web_searches: told.saturating_sub(recorded),
            tier: self.tier,
            ..Billed::from(tokens)
        }
    }

    fn totals(&self) -> UsageTotals {
        let mut usage = self.usage.clone();
        // What it adds is in the totals.
        let _ = usage.message("rest", self.model_name(), self.rest(), UsageConfidence::Final);
        let mut totals = usage.totals();
        totals.lower_bound |= self.is_lower_bound();
        totals
    }

    fn model_name(&self) -> &str {
        self.model.as_deref().unwrap_or(OWN_MODEL)
    }

    /// Counts usage of a response, or the sum of several.
    fn response(
        &mut self,
        response: &RecordedMessage,
        is_sum: bool,
        sub_agent: Option<&str>,
    ) -> Option<AgentEvent> {
        let model = match response.model.is_empty() {
            true => self.model_name().to_owned(),
            false => response.model.clone(),
        };
        let counted = self
            .usage
            .message(&response.id, &model, response.billed, response.word)?;
        let is_unpriced = self.usage.prices().find(&model).is_none();
        Some(AgentEvent::Usage(MessageUsage {
            message_id: response.id.clone(),
            model,
            usage: counted.usage,
            added: counted.added,
            is_new: counted.is_new,
            is_lower_bound: self.is_lower_bound(),
            is_unpriced,
            is_sum,
            parent_tool_use_id: sub_agent.map(str::to_owned),
        }))
    }

    /// Only the last turn and the exit code together are a success.
    fn verdict(&self, end: &ProcessEnd) -> Verdict {
        let had_session = self.session.is_some();
        let complaints: Vec<&str> = end.stderr_tail.lines().filter(|line| !is_chatter(line)).collect();
        let stderr = complaints.join("\n");
        let (words, message) = match (&self.ended, &self.complaint) {
            (Some(result), _) if result.success && end.may_be_success() => return Verdict::Success,
            (Some(result), _) if result.success => ("", end.contradiction()),
            (Some(result), _) => (result.text.as_str(), result.text.clone()),
            (None, Some(complaint)) => (complaint.as_str(), complaint.clone()),
            (None, None) => without_result(end.exit, &stderr, had_session),
        };
        failure(words, message, had_session)
    }
}

impl AgentDecoder for CodexDecoder {
    fn decode(&mut self, line: AgentLine<'_>, events: &mut Vec<AgentEvent>) {
        if let Some(line) = line.read(events) {
            self.handle_line(line, events);
        }
    }

    fn finish(&mut self, end: ProcessEnd) -> ExitOutcome {
        let verdict = self.verdict(&end);
        end.outcome(verdict, self.totals(), self.ended.is_some())
    }

    fn usage(&self) -> UsageTotals {
        self.totals()
    }

    fn records_needed(&self, records: RecordsScope) -> Option<&SessionId> {
        let wanted = match records {
            RecordsScope::SoFar => self.news,
            // It prints nothing while it waits for its sub-agents.
            RecordsScope::Meanwhile => self.in_turn && !self.sub_agents.is_empty(),
            RecordsScope::Whole => !self.recalled || self.ended.is_none(),
        };
        self.session.as_ref().filter(|_| wanted)
    }

    fn sub_agents(&self) -> &[SessionId] {
        &self.sub_agents
    }

    /// Reads the rollout file; a result that waits takes its usage from there.
    fn recall(
        &mut self,
        records: RecordsScope,
        recorded: Option<AgentRecords>,
        events: &mut Vec<AgentEvent>,
    ) {
        self.news = false;
        self.recalled |= records == RecordsScope::Whole;
        if let Some(recorded) = recorded {
            self.recorded = true;
            self.before = Some(recorded.before);
            self.given_up |= recorded.incomplete;
            events.extend(recorded.compacted.then_some(AgentEvent::Compacted));
            for message in &recorded.messages {
                self.tier = message.billed.tier;
                self.searches.1 += message.billed.web_searches;
                events.extend(self.response(message, false, None));
            }
            for message in &recorded.sub_agents {
                // The events need no more than a mark that a sub-agent wrote the message.
                events.extend(self.response(message, false, Some("sub-agent")));
            }
        }
        if records == RecordsScope::Whole {
            let rest = RecordedMessage {
                id: "rest".to_owned(),
                model: String::new(),
                billed: self.rest(),
                word: UsageConfidence::Final,
            };
            events.extend(self.response(&rest, true, None));
        }
        if let Some(result) = self.waiting.take() {
            let usage = self.totals();
            events.push(AgentEvent::Result(AgentResult { usage, ..result }));
        }
    }
}

/// The name and the input of the tool that an item is the call of.
fn tool(item: &Item<'_>) -> Option<(String, Value)> {
    let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
    Some(match item.kind.as_deref()? {
        "command_execution" => ("shell".to_owned(), json!({"command": item.command.as_deref()})),
        "file_change" => ("file_change".to_owned(), json!({"changes": item.changes})),
        "web_search" => ("web_search".to_owned(), json!({"query": item.query.as_deref()})),
        "mcp_tool_call" => {
            let (server, tool) = (text(item.server.as_deref()), text(item.tool.as_deref()));
            (format!("{server}.{tool}"), item.arguments.clone())
        }
        "collab_tool_call" => (
            text(item.tool.as_deref()),
            json!({"prompt": item.prompt.as_deref()}),
        ),
        _ => return None,
    })
}

/// Returns the output of a tool.
fn answer(item: Item<'_>) -> String {
    let pieces = item
        .result
        .0
        .into_iter()
        .flat_map(|answer| answer.content.objects());
    let pieces: Vec<String> = pieces.filter_map(|piece| piece.text.into_owned()).collect();
    let error = item.error.0.and_then(|error| error.message.into_owned());
    item.aggregated_output
        .into_owned()
        .or(error)
        .unwrap_or_else(|| pieces.join("\n"))
}

/// Returns whether codex prints this line on standard error in every run.
fn is_chatter(line: &str) -> bool {
    line.starts_with("WARNING: proceeding") || line.starts_with("Reading ") && line.ends_with("stdin...")
}

/// Whether half an answer may have been paid for. Who answers with an error serves nothing.
fn was_cut_off(words: &str) -> bool {
    words.contains("disconnected")
}

/// `Reconnecting... 1/5 (why)`
fn retry(words: &str) -> Option<(u64, Option<u64>, &str)> {
    let rest = words.strip_prefix("Reconnecting... ")?;
    let (counts, why) = rest.split_once(' ').unwrap_or((rest, ""));
    let (attempt, most) = counts.split_once('/')?;
    let why = why.strip_prefix('(').and_then(|why| why.strip_suffix(')'));
    Some((attempt.parse().ok()?, most.parse().ok(), why.unwrap_or_default()))
}

/// `unexpected status 401 Unauthorized: …`
fn status(words: &str) -> Option<u16> {
    let (_, rest) = words.split_once("unexpected status ")?;
    rest.get(..3)?.parse().ok()
}
