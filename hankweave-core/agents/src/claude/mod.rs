//! The line protocol of claude, as a pure state machine.
//!
//! Input: the lines of `claude -p --output-format stream-json --verbose`, as a rule with `--include-partial-messages`. Output: [`AgentEvent`]s.
//! What each line means, and which of its numbers can be trusted, was measured (AGENT-1 to AGENT-8).
//! Unknown lines, fields and values are ignored: the program is newer than this code. `usage` counts tokens and money, `helpers` follows sub-agents,
//! `background` follows tasks in the background, and `transcript` reads the session's file.

mod background;
mod helpers;
mod line;
mod transcript;
mod usage;

use std::collections::HashMap;
use std::sync::Arc;

use crate::decoder::{AgentDecoder, AgentLine, ProcessEnd};
use crate::launch::Launch;
use crate::lenient::{Count, Object};
use crate::open_tools::{MAX_REMEMBERED_BYTES, OpenTools};
use crate::records::{AgentRecords, RecordsScope};
use hankweave_core::agent::FailureKind;
use hankweave_core::agent::classify::{is_context_exceeded, reason, without_result};
use hankweave_core::agent::moment;
use hankweave_core::agent::{AgentEvent, AgentResult, PermissionDenial, ToolResult};
use hankweave_core::agent::{EndedBy, ExitOutcome, ProcessExit, Verdict};
use hankweave_core::cost::pricing::Prices;
use hankweave_core::cost::{UsageConfidence, UsageTotals, Usd};
use hankweave_core::id::SessionId;
use hankweave_core::time::Timestamp;

use background::Background;
use helpers::Helpers;
use line::{Block, Denial, Message, Piece, RateLimit, StreamLine, content_text};
pub use transcript::Transcript;
use usage::ClaudeUsage;

/// Maximum of messages that are followed while in progress, one for each conversation: the main one and those of sub-agents.
const MAX_IN_PROGRESS: usize = 256;

/// Reads the output of one claude process.
#[derive(Debug)]
pub struct ClaudeDecoder {
    /// A line was read.
    has_output: bool,
    session: Option<SessionId>,
    open_tools: OpenTools,
    /// Id and model of each message in progress, which only its first chunk has. The key is the tool use that started the sub-agent; `None` for the main
    /// conversation.
    in_progress: HashMap<Option<String>, (String, String)>,
    usage: ClaudeUsage,
    helpers: Helpers,
    background: Background,
    /// The transcripts were read after the end.
    has_recalled_all: bool,
    /// The result that decides: the last success, else the last error.
    deciding: Option<AgentResult>,
    /// `deciding` came while work in the background was open, so the next result replaces it in any case.
    is_interim: bool,
    /// End of the usage limit that the provider has reported last, if that rejects requests.
    limited_until: Option<Timestamp>,
}

impl ClaudeDecoder {
    /// Returns a decoder for one process. `resumed` means that the process continues an earlier session, whose cost it repeats.
    #[must_use]
    pub fn new(resumed: bool) -> Self {
        Self {
            has_output: false,
            session: None,
            open_tools: OpenTools::default(),
            in_progress: HashMap::new(),
            usage: ClaudeUsage::new(resumed),
            helpers: Helpers::default(),
            background: Background::default(),
            has_recalled_all: false,
            deciding: None,
            is_interim: false,
            limited_until: None,
        }
    }

    /// Returns the decoder for a launch.
    #[must_use]
    pub fn of(launch: &Launch) -> Self {
        let decoder = Self::new(launch.resume.is_some())
            .priced_by(launch.prices.clone())
            .with_model(&launch.model);
        match launch.carried {
            Some(cost) => decoder.carrying(cost),
            None => decoder,
        }
    }

    /// Uses `prices` instead of the list prices.
    #[must_use]
    pub fn priced_by(mut self, prices: Arc<Prices>) -> Self {
        self.usage.price_by(prices);
        self
    }

    /// Sets the cost of earlier processes of the session.
    #[must_use]
    pub fn carrying(mut self, cost: Usd) -> Self {
        self.usage.add_earlier_cost(cost);
        self
    }

    /// Sets the model of messages that name none.
    #[must_use]
    pub fn with_model(mut self, model: &str) -> Self {
        self.usage.set_model(model);
        self
    }

    /// Marks a program other than claude. It knows the prices of its models, and may send a request without reporting it first. If it ends without a
    /// result, its reported usage is a lower bound.
    #[must_use]
    pub fn of_another_program(mut self) -> Self {
        self.usage.set_other_program();
        self
    }

    /// Translates one line, given without its line break.
    pub fn line(&mut self, line: &str) -> Vec<AgentEvent> {
        let mut events = Vec::new();
        self.decode(AgentLine::Text(line), &mut events);
        events
    }

    /// Handles one line. Here and in the methods below, `parent` is the tool use that started a sub-agent; `None` means the main conversation.
    fn handle_line(&mut self, mut line: StreamLine<'_>, events: &mut Vec<AgentEvent>) {
        let message = std::mem::take(&mut line.message).0;
        let parent = std::mem::take(&mut line.parent_tool_use_id);
        let parent = parent.as_deref();
        match line.kind.as_deref() {
            Some("system") => events.extend(self.system(line)),
            Some("stream_event") => events.extend(self.piece(line.event, parent)),
            Some("assistant") => self.assistant(message, parent, events),
            Some("user") => {
                let result = line.tool_use_result.0.unwrap_or_default();
                if result.scheduled_for.0.is_some() {
                    events.extend(self.background.set_wake_up(true));
                }
                let blocks = message.unwrap_or_default().content.objects();
                events.extend(blocks.filter_map(|block| self.input(block, parent)));
            }
            Some("result") => events.push(AgentEvent::Result(self.result(line))),
            Some("rate_limit_event") => self.limit(line.rate_limit_info),
            Some("command_lifecycle") if line.wakeup_source.as_deref().is_some() => {
                events.extend(self.background.set_wake_up(false));
            }
            _ => {}
        }
    }

    /// Success is a successful result together with exit code 0; neither is enough alone (AGENT-3). Of a process that we have ended, the exit code does
    /// not count. Without a result, standard error shows the kind of failure.
    fn verdict(&self, end: &ProcessEnd) -> Verdict {
        match &self.deciding {
            Some(result) if result.success && end.may_be_success() => Verdict::Success,
            Some(result) if result.success => self.failure("", end.contradiction(), false),
            Some(result) => {
                let status = result.error_status.map(|status| format!(" (status {status})"));
                let message = format!("{}{}", result.text, status.unwrap_or_default());
                self.failure(&message, message.clone(), result.context_exceeded)
            }
            None => {
                let (words, message) = without_result(end.exit, &end.stderr_tail, self.session.is_some());
                self.failure(words, message, is_context_exceeded(words))
            }
        }
    }

    fn failure(&self, words: &str, message: String, context_exceeded: bool) -> Verdict {
        let reason = reason(words, message, self.session.is_some(), context_exceeded);
        // The reported end of a usage limit belongs to this failure only if it is about a limit.
        let limit = self.limited_until.filter(|_| {
            reason.kind == FailureKind::RateLimit || words.to_ascii_lowercase().contains("limit")
        });
        Verdict::Failure {
            reason: match limit {
                Some(ends_at) => reason.limited_until(ends_at),
                None => reason,
            },
            context_exceeded,
        }
    }

    /// Handles a provider's report on the limits of a subscription; states other than `rejected` let requests through.
    fn limit(&mut self, info: Object<RateLimit<'_>>) {
        let Some(info) = info.0 else {
            return;
        };
        let ends_at = info
            .resets_at
            .0
            .and_then(|number| moment(i64::try_from(number).ok()?));
        let is_rejected = info.status.as_deref() == Some("rejected");
        self.limited_until = ends_at.filter(|_| is_rejected);
    }

    fn system(&mut self, line: StreamLine<'_>) -> Option<AgentEvent> {
        match line.subtype.as_deref()? {
            "init" => self.init(line),
            "status" => {
                self.usage.handle_status(line.status.as_deref());
                None
            }
            "compact_boundary" => Some(AgentEvent::Compacted),
            "background_tasks_changed" => Some(self.background.replace_tasks(line.tasks)),
            "api_retry" => {
                let status = status(line.error_status);
                self.usage.retries_after(status);
                Some(AgentEvent::Retrying {
                    attempt: line.attempt.or_zero(),
                    max_retries: line.max_retries.0,
                    delay_ms: line.retry_delay_ms.0,
                    status,
                    error: line.error.into_owned(),
                })
            }
            _ => None,
        }
    }

    /// Handles the only line whose session id counts (AGENT-2); in other lines, a failed resume echoes the id that was asked for.
    fn init(&mut self, line: StreamLine<'_>) -> Option<AgentEvent> {
        let session_id = SessionId::new(line.session_id.into_owned()?).ok()?;
        self.session = Some(session_id.clone());
        let model = line.model.into_owned();
        if let Some(model) = &model {
            self.usage.set_model(model);
        }
        Some(AgentEvent::SessionStarted { session_id, model })
    }

    /// Handles a line with one or more blocks of a model's answer.
    fn assistant(
        &mut self,
        message: Option<Message<'_>>,
        parent: Option<&str>,
        events: &mut Vec<AgentEvent>,
    ) {
        let Some(mut message) = message else {
            return;
        };
        if let Some(parent) = parent {
            self.helpers.spoke(parent);
        }
        let blocks = std::mem::take(&mut message.content).objects();
        events.extend(blocks.filter_map(|block| self.block(block, parent)));
        events.extend(self.usage.message_reported(message, parent));
    }

    /// Reads a chunk of a message in progress. Only the first and the last chunk report usage.
    fn piece(&mut self, piece: Object<Piece<'_>>, parent: Option<&str>) -> Option<AgentEvent> {
        let piece = piece.0?;
        match piece.kind.as_deref()? {
            "message_start" => {
                let message = piece.message.0?;
                let (id, model) = (message.id.0?, message.model.0?);
                self.usage.message_started(parent);
                self.add_in_progress(parent, &id, &model);
                let billed = message.usage.0?.billed();
                self.usage
                    .message(&id, &model, billed, UsageConfidence::Begun, parent)
            }
            "message_delta" => {
                // A message that breaks off has no reason to stop, and its reported output is too low.
                let confidence = match piece.delta.0.and_then(|delta| delta.stop_reason.0) {
                    Some(_) => UsageConfidence::Final,
                    None => UsageConfidence::Begun,
                };
                let (id, model) = self.in_progress.get(&parent.map(str::to_owned))?.clone();
                let billed = piece.usage.0?.billed();
                self.usage.message(&id, &model, billed, confidence, parent)
            }
            "message_stop" => {
                self.in_progress.remove(&parent.map(str::to_owned));
                None
            }
            _ => None,
        }
    }

    /// Notes that a message is in progress, unless there are too many.
    fn add_in_progress(&mut self, parent: Option<&str>, id: &str, model: &str) {
        let longest = id.len().max(model.len()).max(parent.map_or(0, str::len));
        if longest <= MAX_REMEMBERED_BYTES && self.in_progress.len() < MAX_IN_PROGRESS {
            let message = (id.to_owned(), model.to_owned());
            self.in_progress.insert(parent.map(str::to_owned), message);
        }
    }

    /// Handles an output of a model: a text, a thought or the call of a tool.
    fn block(&mut self, block: Block<'_>, parent: Option<&str>) -> Option<AgentEvent> {
        match block.kind.as_deref()? {
            "text" => Some(AgentEvent::Message {
                text: block.text.into_owned()?,
                parent_tool_use_id: parent.map(str::to_owned),
            }),
            "thinking" => Some(AgentEvent::Thinking {
                text: block.thinking.into_owned()?,
                parent_tool_use_id: parent.map(str::to_owned),
            }),
            "tool_use" => {
                let (id, name) = (block.id.into_owned()?, block.name.into_owned()?);
                self.open_tools.insert(&id, &name);
                if let Some(parent) = parent {
                    self.helpers.called(parent, &id);
                }
                Some(AgentEvent::ToolUse {
                    id,
                    name,
                    input: block.input,
                    parent_tool_use_id: parent.map(str::to_owned),
                })
            }
            _ => None,
        }
    }

    /// Handles an input of a model: the result of a tool, or a text for a sub-agent.
    fn input(&mut self, block: Block<'_>, parent: Option<&str>) -> Option<AgentEvent> {
        match (block.kind.as_deref(), parent) {
            (Some("tool_result"), _) => self.tool_result(block, parent),
            (Some("text"), Some(parent)) => {
                self.helpers.prompted(parent);
                None
            }
            _ => None,
        }
    }

    fn tool_result(&mut self, block: Block<'_>, parent: Option<&str>) -> Option<AgentEvent> {
        let tool_use_id = block.tool_use_id.into_owned()?;
        match parent {
            Some(parent) => self.helpers.answered(parent, &tool_use_id),
            None => self.helpers.ended(&tool_use_id),
        }
        let tool_name = self.open_tools.remove(&tool_use_id);
        let whole = content_text(block.content);
        Some(AgentEvent::ToolResult(ToolResult {
            parent_tool_use_id: parent.map(str::to_owned),
            ..ToolResult::new(tool_use_id, tool_name, whole, block.is_error.0)
        }))
    }

    /// Handles a result line, which ends a turn.
    fn result(&mut self, mut line: StreamLine<'_>) -> AgentResult {
        let said = line.result_text();
        let terminal_reason = std::mem::take(&mut line.terminal_reason).into_owned();
        let error_status = status(line.api_error_status);
        // A request was broken off, or its connection was lost: part of its answer may have been paid for.
        let lost = terminal_reason.as_deref().is_some_and(|reason| {
            reason.starts_with("aborted") || (reason == "api_error" && error_status.is_none())
        });
        self.usage.result(&mut line, lost);
        self.in_progress.clear();
        let success = !line.is_error.0;
        let result = AgentResult {
            success,
            context_exceeded: !success
                && (terminal_reason.as_deref().is_some_and(is_context_exceeded)
                    || is_context_exceeded(&said)),
            text: said,
            structured: Some(line.structured_output).filter(|value| !value.is_null()),
            budget_exhausted: !success
                && (terminal_reason.as_deref() == Some("budget_exhausted")
                    || line.subtype.as_deref() == Some("error_max_budget_usd")),
            error_status,
            terminal_reason,
            usage: self.usage.totals(),
            permission_denials: line.permission_denials.objects().filter_map(denial).collect(),
        };
        // An error after a real success is ignored (AGENT-4).
        let has_succeeded = self.deciding.as_ref().is_some_and(|earlier| earlier.success);
        if success || !has_succeeded || self.is_interim {
            self.deciding = Some(result.clone());
            self.is_interim = self.background.is_open();
        }
        result
    }
}

impl AgentDecoder for ClaudeDecoder {
    fn decode(&mut self, line: AgentLine<'_>, events: &mut Vec<AgentEvent>) {
        if let Some(line) = line.read(events) {
            self.has_output = true;
            self.handle_line(line, events);
        }
    }

    fn finish(&mut self, end: ProcessEnd) -> ExitOutcome {
        let verdict = self.verdict(&end);
        // A process that ended by itself without output, such as a missing command, has sent no request.
        let was_at_work =
            self.has_output || end.ended_by == EndedBy::Us || matches!(end.exit, ProcessExit::Signaled(_));
        let totals = self.totals_at_end(was_at_work);
        ExitOutcome {
            states_no_usage: self.usage.states_nothing() && totals.is_nothing(),
            ..end.outcome(verdict, totals, self.deciding.is_some())
        }
    }

    fn usage(&self) -> UsageTotals {
        self.totals_at_end(true)
    }

    /// The transcripts report three things that the stream leaves out: the output of sub-agents, all usage of a process that was killed before its
    /// result, and the part of its sub-agents' usage that its last result omits.
    fn records_needed(&self, records: RecordsScope) -> Option<&SessionId> {
        let wanted = match records {
            RecordsScope::SoFar => self.usage.has_sub_agent_news(),
            // The stream reports that a sub-agent answers, but not its usage.
            RecordsScope::Meanwhile => self.helpers.may_work(),
            RecordsScope::Whole => self.deciding.is_none() || (self.helpers.any() && !self.has_recalled_all),
        };
        self.session.as_ref().filter(|_| wanted)
    }

    fn recall(
        &mut self,
        records: RecordsScope,
        recorded: Option<AgentRecords>,
        events: &mut Vec<AgentEvent>,
    ) {
        match (records, recorded) {
            (RecordsScope::SoFar | RecordsScope::Meanwhile, recorded) => {
                self.usage.recall_helpers(recorded, events)
            }
            (RecordsScope::Whole, Some(recorded)) => {
                self.has_recalled_all = true;
                match self.deciding {
                    Some(_) => self.usage.recall_rest(recorded),
                    None => self.usage.recall_all(recorded),
                }
            }
            (RecordsScope::Whole, None) => {}
        }
    }
}

impl ClaudeDecoder {
    /// Returns the usage if the process ends now. It is a lower bound if an answer may be missing: that to an open request of a sub-agent or, without a
    /// result, that to a request which no line has reported.
    fn totals_at_end(&self, was_at_work: bool) -> UsageTotals {
        let mut totals = self.usage.totals();
        totals.lower_bound |= self.helpers.may_ask();
        totals.lower_bound |= was_at_work && self.deciding.is_none() && self.usage.may_ask_unreported();
        totals
    }
}

fn denial(entry: Denial<'_>) -> Option<PermissionDenial> {
    Some(PermissionDenial {
        tool_name: entry.tool_name.into_owned()?,
        tool_use_id: entry.tool_use_id.into_owned().unwrap_or_default(),
    })
}

fn status(number: Count) -> Option<u16> {
    u16::try_from(number.0?).ok()
}

#[cfg(test)]
mod tests;
