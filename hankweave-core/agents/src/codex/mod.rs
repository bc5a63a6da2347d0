//! The line protocol of codex, as a pure state machine.
//!
//! Input: the lines of `codex exec --json`. Output: [`AgentEvent`]s. The meaning of each line was measured (AGENT-18). The stream reports tokens only at
//! its end, and neither the model nor that a conversation was shortened. All of this is in the rollout file, codex's own record of the session (`rollout`),
//! so a result waits until that file was read. No output reports money.

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
    /// The model asked for; `None` for that of codex's own settings.
    model: Option<String>,
    session: Option<SessionId>,
    open_tools: OpenTools,
    /// The last text of the model.
    answer: String,
    /// A turn has begun and not ended.
    in_turn: bool,
    /// Some usage is unknown: a lost connection may have carried half an answer, or the records are incomplete.
    misses_cost: bool,
    /// Sub-agents have worked. Nothing reports whether one of their answers was cut off (AGENT-19).
    had_sub_agents: bool,
    /// Sessions of the sub-agents.
    sub_agents: Vec<SessionId>,
    /// A line was printed since the rollout file was last read.
    has_unread_news: bool,
    /// The rollout file was read after the end of the process.
    rollout_complete: bool,
    /// The rollout file was found.
    rollout_found: bool,
    /// The path of the rollout file is unknown, so no result waits for it.
    has_no_rollout: bool,
    /// Usage of the responses in the rollout file.
    usage: ProcessUsage,
    /// Number of web searches in the stream.
    streamed_searches: u64,
    /// Number of web searches in the rollout file.
    recorded_searches: u64,
    /// Service tier of the response that was read last. Usage that the rollout file lacks counts at this tier.
    tier: ServiceTier,
    /// Tokens of the session with its earlier processes, as the last turn reports them.
    session_tokens: Option<TokenUsage>,
    /// Tokens of the session's earlier processes, where known.
    earlier_tokens: Option<TokenUsage>,
    /// The result of the last turn, until its usage is read from the rollout file.
    pending_result: Option<AgentResult>,
    /// The result of the last turn, kept for the verdict after it is reported.
    last_result: Option<AgentResult>,
    /// The last error line that reports no retry.
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
            misses_cost: false,
            had_sub_agents: false,
            sub_agents: Vec::new(),
            has_unread_news: false,
            rollout_complete: false,
            rollout_found: false,
            has_no_rollout: false,
            usage: ProcessUsage::default(),
            streamed_searches: 0,
            recorded_searches: 0,
            tier: ServiceTier::Standard,
            session_tokens: None,
            earlier_tokens: (!resumed).then_some(TokenUsage::ZERO),
            pending_result: None,
            last_result: None,
            complaint: None,
        }
    }

    /// Returns the decoder for a launch.
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
            earlier_tokens: Some(before),
            ..self
        }
    }

    /// Uses `prices` instead of the list prices.
    #[must_use]
    pub fn priced_by(mut self, prices: Arc<Prices>) -> Self {
        self.usage = ProcessUsage::priced_by(prices);
        self
    }

    /// Marks a process whose rollout file has an unknown path.
    #[must_use]
    pub fn unrecorded(self) -> Self {
        Self {
            has_no_rollout: true,
            ..self
        }
    }

    fn handle_line(&mut self, line: StreamLine<'_>, events: &mut Vec<AgentEvent>) {
        self.has_unread_news = true;
        match line.kind.as_deref() {
            Some("thread.started") => {
                let (id, model) = (line.thread_id.into_owned(), self.model.clone());
                events.extend(session_started(&mut self.session, id, model));
            }
            Some("turn.started") => self.in_turn = true,
            Some("turn.completed") => {
                self.session_tokens = line.usage.0.map(|usage| usage.tokens()).or(self.session_tokens);
                let text = self.answer.clone();
                self.end_turn(text, true, events);
            }
            Some("turn.failed") => {
                let words = line.error.0.and_then(|error| error.message.into_owned());
                let words = words.or(self.complaint.take()).unwrap_or_default();
                self.end_turn(words, false, events);
            }
            Some("error") => events.extend(self.handle_error(line.message.into_owned())),
            Some("item.started") => {
                if let Some(item) = line.item.0 {
                    self.item_started(&item, events);
                }
            }
            Some("item.completed") => {
                if let Some(item) = line.item.0 {
                    self.item_completed(item, events);
                }
            }
            _ => {}
        }
    }

    /// Reads an error line. `Reconnecting... 1/5 (why)` is a retry; any other error is kept for the end, in case no failed turn reports it.
    fn handle_error(&mut self, words: Option<String>) -> Option<AgentEvent> {
        let words = words?;
        let Some((attempt, max_retries, why)) = retry(&words) else {
            self.complaint = Some(words);
            return None;
        };
        let status = status(why);
        self.misses_cost |= was_cut_off(why);
        Some(AgentEvent::Retrying {
            attempt,
            max_retries,
            delay_ms: None,
            status,
            error: Some(why.to_owned()),
        })
    }

    /// Notes the result of a turn, and reports it now if no rollout file will have its usage.
    fn end_turn(&mut self, text: String, success: bool, events: &mut Vec<AgentEvent>) {
        self.in_turn = false;
        self.misses_cost |= !success && was_cut_off(&text);
        let context_exceeded = !success && is_context_exceeded(&text);
        let result = AgentResult {
            success,
            context_exceeded,
            error_status: if success { None } else { status(&text) },
            text,
            usage: self.totals(),
            ..AgentResult::default()
        };
        self.last_result = Some(result.clone());
        match self.has_no_rollout {
            true => events.push(AgentEvent::Result(result)),
            false => self.pending_result = Some(result),
        }
    }

    fn item_started(&mut self, item: &Item<'_>, events: &mut Vec<AgentEvent>) {
        let (Some((name, input)), Some(id)) = (tool(item), item.id.as_deref()) else {
            return;
        };
        self.had_sub_agents |= item.kind.as_deref() == Some("collab_tool_call");
        self.open_tools.insert(id, &name);
        events.push(AgentEvent::tool_use(id.to_owned(), name, input));
    }

    fn item_completed(&mut self, item: Item<'_>, events: &mut Vec<AgentEvent>) {
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
                self.streamed_searches += u64::from(is_search);
                self.tool_completed(item, events);
            }
        }
    }

    /// Reports the result of a tool call, and first the call if that was not reported.
    fn tool_completed(&mut self, item: Item<'_>, events: &mut Vec<AgentEvent>) {
        let (Some((name, _)), Some(id)) = (tool(&item), item.id.as_deref()) else {
            return;
        };
        let id = id.to_owned();
        self.remember_sub_agents(&item);
        let known = self.open_tools.remove(&id);
        if known.is_none() {
            // Some tools have no line for their start, so their call is reported now.
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
        // The tokens of the session are known, but not the part of this process.
        let unknown = self.earlier_tokens.is_none() && self.session_tokens.is_some();
        // Neither the stream nor a rollout file has reported tokens.
        let unreported = self.session_tokens.is_none() && !self.rollout_found && self.last_result.is_some();
        self.in_turn
            || self.misses_cost
            || self.had_sub_agents
            || unknown
            || unreported
            || self.usage.is_lower_bound()
    }

    /// Returns the usage of this process that the stream reports and the rollout file lacks, because that was not found or ends early.
    fn unreported_rest(&self) -> Billed {
        let tokens = match (self.session_tokens, self.earlier_tokens) {
            (Some(all), Some(earlier)) => {
                let counted = earlier + self.usage.totals().tokens;
                all.at_least(counted) - counted
            }
            _ => TokenUsage::ZERO,
        };
        Billed {
            web_searches: self.streamed_searches.saturating_sub(self.recorded_searches),
            tier: self.tier,
            ..Billed::from(tokens)
        }
    }

    fn totals(&self) -> UsageTotals {
        // A copy, because the rollout file may still report the rest.
        let mut usage = self.usage.clone();
        // Only the totals are needed, not the increase that is returned.
        let _ = usage.message(
            "rest",
            self.model_name(),
            self.unreported_rest(),
            UsageConfidence::Final,
        );
        let mut totals = usage.totals();
        totals.lower_bound |= self.is_lower_bound();
        totals
    }

    fn model_name(&self) -> &str {
        self.model.as_deref().unwrap_or(OWN_MODEL)
    }

    /// Counts the usage of one response or, with `is_sum`, of several together.
    fn count_response(
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

    /// Success needs both a successful last turn and exit code 0.
    fn verdict(&self, end: &ProcessEnd) -> Verdict {
        let had_session = self.session.is_some();
        let complaints: Vec<&str> = end.stderr_tail.lines().filter(|line| !is_chatter(line)).collect();
        let stderr = complaints.join("\n");
        let (words, message) = match (&self.last_result, &self.complaint) {
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
        end.outcome(verdict, self.totals(), self.last_result.is_some())
    }

    fn usage(&self) -> UsageTotals {
        self.totals()
    }

    fn records_needed(&self, records: RecordsScope) -> Option<&SessionId> {
        let wanted = match records {
            RecordsScope::SoFar => self.has_unread_news,
            // Codex prints nothing while it waits for its sub-agents.
            RecordsScope::Meanwhile => self.in_turn && !self.sub_agents.is_empty(),
            RecordsScope::Whole => !self.rollout_complete || self.last_result.is_none(),
        };
        self.session.as_ref().filter(|_| wanted)
    }

    fn sub_agents(&self) -> &[SessionId] {
        &self.sub_agents
    }

    /// Counts the records of the rollout file, then reports the pending result with the usage that is now known.
    fn recall(
        &mut self,
        records: RecordsScope,
        recorded: Option<AgentRecords>,
        events: &mut Vec<AgentEvent>,
    ) {
        self.has_unread_news = false;
        self.rollout_complete |= records == RecordsScope::Whole;
        if let Some(recorded) = recorded {
            self.rollout_found = true;
            self.earlier_tokens = Some(recorded.before);
            self.misses_cost |= recorded.incomplete;
            events.extend(recorded.compacted.then_some(AgentEvent::Compacted));
            for message in &recorded.messages {
                self.tier = message.billed.tier;
                self.recorded_searches += message.billed.web_searches;
                events.extend(self.count_response(message, false, None));
            }
            for message in &recorded.sub_agents {
                // The events need no more than a mark that a sub-agent wrote the message.
                events.extend(self.count_response(message, false, Some("sub-agent")));
            }
        }
        if records == RecordsScope::Whole {
            let rest = RecordedMessage {
                id: "rest".to_owned(),
                model: String::new(),
                billed: self.unreported_rest(),
                word: UsageConfidence::Final,
            };
            events.extend(self.count_response(&rest, true, None));
        }
        if let Some(result) = self.pending_result.take() {
            let usage = self.totals();
            events.push(AgentEvent::Result(AgentResult { usage, ..result }));
        }
    }
}

/// Returns the tool's name and input, if the item is a tool call.
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

/// Whether a connection was lost, so that half an answer may have been paid for. A provider that answers with an error has served nothing.
fn was_cut_off(words: &str) -> bool {
    words.contains("disconnected")
}

/// Parses `Reconnecting... 1/5 (why)` into the attempt, the maximum of attempts and the reason.
fn retry(words: &str) -> Option<(u64, Option<u64>, &str)> {
    let rest = words.strip_prefix("Reconnecting... ")?;
    let (counts, why) = rest.split_once(' ').unwrap_or((rest, ""));
    let (attempt, most) = counts.split_once('/')?;
    let why = why.strip_prefix('(').and_then(|why| why.strip_suffix(')'));
    Some((attempt.parse().ok()?, most.parse().ok(), why.unwrap_or_default()))
}

/// Parses the HTTP status out of `unexpected status 401 Unauthorized: …`.
fn status(words: &str) -> Option<u16> {
    let (_, rest) = words.split_once("unexpected status ")?;
    rest.get(..3)?.parse().ok()
}
