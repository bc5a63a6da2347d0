//! The line protocol of claude, as a pure state machine.
//!
//! Input: the lines of `claude -p --output-format stream-json --verbose`, as a rule with `--include-partial-messages`. Output: [`AgentEvent`]s.
//! What each line means, and which of its numbers can be trusted, was measured (AGENT-1 to AGENT-8).
//! Lines, fields and values that are not known are passed over: the program is newer than this code.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::classify::{classify, is_context_exceeded};
use super::event::{AgentEvent, AgentResult, MessageUsage, PermissionDenial, ToolResult};
use super::failure::{FailureKind, FailureReason};
use super::json::Json;
use super::lines::{AgentLines, Said};
use super::outcome::{EndedBy, ExitOutcome, ProcessExit, Verdict};
use super::resets::moment;
use super::transcript::Transcript;
use crate::cost::pricing::Prices;
use crate::cost::{Billed, ModelUsage, ProcessUsage, ReportedUsage, Statement, TokenUsage, UsageTotals, Usd};
use crate::id::SessionId;
use crate::time::Timestamp;

/// How much of a line that is no JSON object is told.
const UNPARSED_CHARS: usize = 200;

/// Tool calls whose name is remembered until their result; a sane agent has a handful.
const MAX_OPEN_TOOLS: usize = 1_024;

/// Messages that are written at the same time, one for each sub-agent.
const MAX_WRITTEN: usize = 256;

/// Longest id or name that is remembered, in bytes.
const MAX_REMEMBERED_BYTES: usize = 256;

/// Reads the output of one claude process.
#[derive(Debug)]
pub struct ClaudeDecoder {
    resumed: bool,
    /// What the earlier processes of the session cost, where that is known.
    carried: Option<Usd>,
    model: Option<String>,
    session: Option<SessionId>,
    open_tools: HashMap<String, String>,
    /// Messages whose pieces are told while they are written, by the tool use of their sub-agent, with id and model.
    written: HashMap<Option<String>, (String, String)>,
    /// A request was sent, and its answer has not begun.
    asking: bool,
    /// The connection of a request was lost, or the request was broken off, before the beginning of its answer was told; what it cost nobody tells.
    given_up: bool,
    /// A conversation was summed up, which costs and is told by a result only.
    summed_up: bool,
    /// A sub-agent has begun an answer, so that the one before it is in its transcript.
    helped: bool,
    usage: ProcessUsage,
    /// The result that decides: the last success, else the last error.
    deciding: Option<AgentResult>,
    /// When the usage limit ends that the provider has named last.
    limited_until: Option<Timestamp>,
}

impl ClaudeDecoder {
    /// A decoder for one process; `resumed` says that it goes on with an earlier session, whose cost it repeats.
    #[must_use]
    pub fn new(resumed: bool) -> Self {
        Self {
            resumed,
            carried: None,
            model: None,
            session: None,
            open_tools: HashMap::new(),
            written: HashMap::new(),
            asking: false,
            given_up: false,
            summed_up: false,
            helped: false,
            usage: ProcessUsage::default(),
            deciding: None,
            limited_until: None,
        }
    }

    /// The same with other prices than those of the list.
    #[must_use]
    pub fn priced_by(mut self, prices: Arc<Prices>) -> Self {
        self.usage = ProcessUsage::priced_by(prices);
        self
    }

    /// The same for a session whose earlier processes cost this much.
    #[must_use]
    pub fn carrying(mut self, cost: Usd) -> Self {
        self.carried = Some(cost);
        self
    }

    /// Translates one line, given without its line break.
    pub fn line(&mut self, line: &str) -> Vec<AgentEvent> {
        let mut lines = AgentLines::default();
        lines.push(line);
        let mut events = Vec::new();
        self.hear(&lines, 0, &mut events);
        events
    }

    /// Adds what line number `index` of `lines`, counted from 0, says; nothing when there is no such line.
    pub fn hear(&mut self, lines: &AgentLines, index: usize, events: &mut Vec<AgentEvent>) {
        match lines.get(index) {
            Some(Said::Object(line)) => self.said(line, events),
            Some(Said::Unparsed(line)) => events.push(AgentEvent::Unparsed {
                start: line.chars().take(UNPARSED_CHARS).collect(),
            }),
            Some(Said::TooLong { bytes, sha256 }) => events.push(AgentEvent::OutputTruncated {
                bytes,
                sha256: sha256.to_owned(),
            }),
            None => {}
        }
    }

    fn said(&mut self, line: Json<'_>, events: &mut Vec<AgentEvent>) {
        let [kind, message, event, parent] = line.fields(["type", "message", "event", "parent_tool_use_id"]);
        let parent = parent.and_then(Json::as_str);
        match kind.and_then(Json::as_str).as_deref() {
            Some("system") => events.extend(self.system(line)),
            Some("stream_event") => events.extend(self.piece(event, parent.as_deref())),
            Some("assistant") => self.assistant(message, parent.as_deref(), events),
            Some("user") => self.user(message, parent.as_deref(), events),
            Some("result") => events.push(AgentEvent::Result(self.result(line))),
            Some("rate_limit_event") => self.limit(line),
            _ => {}
        }
    }

    /// The session whose transcripts should be read before the end is told: the process has not said itself what it used.
    #[must_use]
    pub fn unsettled_session(&self) -> Option<&SessionId> {
        self.session.as_ref().filter(|_| self.deciding.is_none())
    }

    /// The session in which sub-agents work whose transcripts tell more than the stream, since they were read last.
    #[must_use]
    pub fn helped_session(&self) -> Option<&SessionId> {
        self.session.as_ref().filter(|_| self.helped)
    }

    /// Adds what the transcripts of sub-agents say, while they work; `None` when there are none.
    pub fn overhear(&mut self, transcript: Option<Transcript>, events: &mut Vec<AgentEvent>) {
        let answers = transcript.into_iter().flat_map(Transcript::into_answers);
        for answer in answers.filter(|answer| answer.word == Statement::Final) {
            // Which of them it was does not matter to anybody.
            let parent = Some("sub-agent");
            events.extend(self.message_usage(&answer.id, &answer.model, answer.billed, answer.word, parent));
        }
        self.helped = false;
    }

    /// Adds what the transcripts say of the session.
    pub fn recall(&mut self, transcript: Transcript) {
        self.asking |= transcript.settle(&mut self.usage);
    }

    /// What the process has used until now.
    #[must_use]
    pub fn usage(&self) -> UsageTotals {
        self.totals()
    }

    /// Decides how the process did: success is a successful result together with exit code 0, neither alone. A process that we have ended
    /// cannot choose its exit code: of it the result alone is asked.
    ///
    /// `stderr_tail` is the end of standard error; its words count when there is no result. `leftovers` is how many
    /// descendants had to be killed.
    #[must_use]
    pub fn finish(
        &self,
        exit: ProcessExit,
        ended_by: EndedBy,
        stderr_tail: String,
        leftovers: usize,
    ) -> ExitOutcome {
        ExitOutcome {
            exit,
            verdict: self.verdict(exit, ended_by, &stderr_tail),
            usage: self.totals(),
            result_received: self.deciding.is_some(),
            stderr_tail,
            leftovers,
        }
    }

    fn totals(&self) -> UsageTotals {
        let mut totals = self.usage.totals();
        totals.lower_bound = self.is_lower_bound();
        totals
    }

    fn is_lower_bound(&self) -> bool {
        self.asking || self.given_up || self.summed_up || self.usage.is_lower_bound()
    }

    /// Neither the exit code nor the result decides alone (AGENT-3).
    fn verdict(&self, exit: ProcessExit, ended_by: EndedBy, stderr_tail: &str) -> Verdict {
        let stderr = stderr_tail.trim();
        let exit_is_fine = exit.is_success() || ended_by == EndedBy::Us;
        match &self.deciding {
            Some(result) if result.success && exit_is_fine => Verdict::Success,
            Some(result) if result.success => {
                self.failure("", format!("the agent reported success but {exit}"), false)
            }
            Some(result) => {
                let status = result.error_status.map(|status| format!(" (status {status})"));
                let message = format!("{}{}", result.text, status.unwrap_or_default());
                self.failure(&message, message.clone(), result.context_exceeded)
            }
            None if !stderr.is_empty() && !exit.is_success() => {
                let message = format!("the agent {exit}: {stderr}");
                self.failure(stderr, message, is_context_exceeded(stderr))
            }
            None => {
                let missing = if self.session.is_some() {
                    "a result"
                } else {
                    "a session"
                };
                self.failure("", format!("the agent {exit} without reporting {missing}"), false)
            }
        }
    }

    fn failure(&self, words: &str, message: String, context_exceeded: bool) -> Verdict {
        let class = classify(words, self.session.is_some());
        let reason = FailureReason {
            kind: class.kind,
            retry_after_ms: class.retry_after.map(millis),
            ..FailureReason::unknown(class.retriable && !context_exceeded, message)
        };
        let limit = self
            .limited_until
            .filter(|_| class.kind == FailureKind::RateLimit || words.to_ascii_lowercase().contains("limit"));
        Verdict::Failure {
            reason: match limit {
                Some(ends_at) => reason.limited_until(ends_at),
                None => reason,
            },
            context_exceeded,
        }
    }

    /// What a provider says of the limits of a subscription; other states than `rejected` let requests through.
    fn limit(&mut self, line: Json<'_>) {
        let Some(info) = line.field("rate_limit_info") else {
            return;
        };
        let ends_at = info.field("resetsAt").and_then(whole_number);
        let ends_at = ends_at.and_then(|number| moment(i64::try_from(number).ok()?));
        let is_rejected = text(info, "status").is_some_and(|status| status == "rejected");
        self.limited_until = ends_at.filter(|_| is_rejected);
    }

    fn system(&mut self, line: Json<'_>) -> Option<AgentEvent> {
        match &*text(line, "subtype")? {
            "init" => self.init(line),
            "status" => {
                let status = text(line, "status");
                self.asking |= status.as_deref() == Some("requesting");
                self.summed_up |= status.as_deref() == Some("compacting");
                None
            }
            "compact_boundary" => Some(AgentEvent::Compacted),
            "api_retry" => {
                let status = status(line, "error_status");
                // Whoever answers with a status serves nothing; a connection that is lost may have carried half an answer.
                self.given_up |= status.is_none();
                Some(AgentEvent::Retrying {
                    attempt: count(line, "attempt"),
                    max_retries: line.field("max_retries").and_then(whole_number),
                    delay_ms: line.field("retry_delay_ms").and_then(whole_number),
                    status,
                    error: text(line, "error").map(Cow::into_owned),
                })
            }
            _ => None,
        }
    }

    /// The only line whose session id counts (AGENT-2): a failed resume echoes the id that was asked for.
    fn init(&mut self, line: Json<'_>) -> Option<AgentEvent> {
        let session_id = SessionId::new(text(line, "session_id")?).ok()?;
        self.session = Some(session_id.clone());
        self.model = text(line, "model").map(Cow::into_owned);
        Some(AgentEvent::SessionStarted {
            session_id,
            model: self.model.clone(),
        })
    }

    fn assistant(&mut self, message: Option<Json<'_>>, parent: Option<&str>, events: &mut Vec<AgentEvent>) {
        let Some(message) = message else {
            return;
        };
        let [id, model, usage, content, stop] =
            message.fields(["id", "model", "usage", "content", "stop_reason"]);
        events.extend(objects(content).filter_map(|block| self.block(block, parent)));
        if let (Some(id), Some(model), Some(usage)) = (id, model, usage) {
            let word = if stop.and_then(Json::as_str).is_some() {
                Statement::Final
            } else {
                Statement::Rough
            };
            if let (Some(id), Some(model)) = (id.as_str(), model.as_str()) {
                let billed = billed(usage);
                // An answer that comes whole is asked for when the one that was to come in pieces has broken off.
                let whole = parent.is_none() && word == Statement::Final && !billed.is_nothing();
                self.given_up |= self.asking && whole;
                self.asking &= !whole;
                events.extend(self.message_usage(&id, &model, billed, word, parent));
            }
        }
    }

    /// A piece of a message that is being written; only its first and its last piece tell of usage.
    fn piece(&mut self, event: Option<Json<'_>>, parent: Option<&str>) -> Option<AgentEvent> {
        let [kind, message, delta, usage] = event?.fields(["type", "message", "delta", "usage"]);
        match &*kind?.as_str()? {
            "message_start" => {
                let [id, model, usage] = message?.fields(["id", "model", "usage"]);
                let (id, model) = (id?.as_str()?, model?.as_str()?);
                self.asking &= parent.is_some();
                self.remember_written(parent, &id, &model);
                self.message_usage(&id, &model, billed(usage?), Statement::Begun, parent)
            }
            "message_delta" => {
                // One that breaks off has no reason to stop, and is told without its true output.
                let ended = delta
                    .and_then(|delta| delta.field("stop_reason"))
                    .and_then(Json::as_str);
                let word = if ended.is_some() {
                    Statement::Final
                } else {
                    Statement::Begun
                };
                let (id, model) = self.written.get(&parent.map(str::to_owned))?.clone();
                self.message_usage(&id, &model, billed(usage?), word, parent)
            }
            "message_stop" => {
                self.written.remove(&parent.map(str::to_owned));
                None
            }
            _ => None,
        }
    }

    fn remember_written(&mut self, parent: Option<&str>, id: &str, model: &str) {
        let longest = id.len().max(model.len()).max(parent.map_or(0, str::len));
        if longest <= MAX_REMEMBERED_BYTES && self.written.len() < MAX_WRITTEN {
            let message = (id.to_owned(), model.to_owned());
            self.written.insert(parent.map(str::to_owned), message);
        }
    }

    fn block(&mut self, block: Json<'_>, parent: Option<&str>) -> Option<AgentEvent> {
        let [kind, said, thought, id, name, input] =
            block.fields(["type", "text", "thinking", "id", "name", "input"]);
        match &*kind?.as_str()? {
            "text" => Some(AgentEvent::Message {
                text: said?.as_str()?.into_owned(),
                parent_tool_use_id: parent.map(str::to_owned),
            }),
            "thinking" => Some(AgentEvent::Thinking {
                text: thought?.as_str()?.into_owned(),
                parent_tool_use_id: parent.map(str::to_owned),
            }),
            "tool_use" => {
                let (id, name) = (id?.as_str()?, name?.as_str()?);
                self.remember_tool(&id, &name);
                Some(AgentEvent::ToolUse {
                    id: id.into_owned(),
                    name: name.into_owned(),
                    input: input.map_or(serde_json::Value::Null, Json::to_value),
                    parent_tool_use_id: parent.map(str::to_owned),
                })
            }
            _ => None,
        }
    }

    fn remember_tool(&mut self, id: &str, name: &str) {
        let short = id.len().max(name.len()) <= MAX_REMEMBERED_BYTES;
        if short && self.open_tools.len() < MAX_OPEN_TOOLS {
            self.open_tools.insert(id.to_owned(), name.to_owned());
        }
    }

    /// Usage stands on every line of a message, so only what is new of it counts.
    fn message_usage(
        &mut self,
        id: &str,
        model: &str,
        billed: Billed,
        word: Statement,
        parent: Option<&str>,
    ) -> Option<AgentEvent> {
        let counted = self.usage.message(id, model, billed, word)?;
        self.helped |= counted.is_new && parent.is_some() && word == Statement::Rough;
        Some(AgentEvent::Usage(MessageUsage {
            message_id: id.to_owned(),
            model: model.to_owned(),
            usage: counted.usage,
            added: counted.added,
            is_new: counted.is_new,
            is_lower_bound: self.is_lower_bound(),
            parent_tool_use_id: parent.map(str::to_owned),
        }))
    }

    fn user(&mut self, message: Option<Json<'_>>, parent: Option<&str>, events: &mut Vec<AgentEvent>) {
        let content = message.and_then(|message| message.field("content"));
        events.extend(objects(content).filter_map(|block| self.tool_result(block, parent)));
    }

    fn tool_result(&mut self, block: Json<'_>, parent: Option<&str>) -> Option<AgentEvent> {
        let [kind, id, content, is_error] = block.fields(["type", "tool_use_id", "content", "is_error"]);
        kind?.as_str().filter(|kind| kind == "tool_result")?;
        let id = id?.as_str()?;
        let whole = content.map(content_text).unwrap_or_default();
        let original_length = whole.chars().count();
        let truncated = original_length > ToolResult::MAX_CHARS;
        Some(AgentEvent::ToolResult(ToolResult {
            tool_name: self.open_tools.remove(&*id),
            tool_use_id: id.into_owned(),
            text: if truncated {
                cut(&whole)
            } else {
                whole.into_owned()
            },
            truncated,
            original_length,
            is_error: is_error.and_then(Json::as_bool).unwrap_or(false),
            parent_tool_use_id: parent.map(str::to_owned),
        }))
    }

    fn result(&mut self, line: Json<'_>) -> AgentResult {
        self.usage.result(self.reported_usage(line));
        let terminal_reason = text(line, "terminal_reason").map(Cow::into_owned);
        let error_status = status(line, "api_error_status");
        let lost = terminal_reason.as_deref().is_some_and(|reason| {
            reason.starts_with("aborted") || (reason == "api_error" && error_status.is_none())
        });
        self.given_up |= self.asking && lost;
        (self.asking, self.summed_up, self.helped) = (false, false, false);
        self.written.clear();
        let said = result_text(line);
        let success = !flag(line, "is_error");
        let result = AgentResult {
            success,
            context_exceeded: !success
                && (terminal_reason.as_deref().is_some_and(is_context_exceeded)
                    || is_context_exceeded(&said)),
            text: said,
            budget_exhausted: !success
                && (terminal_reason.as_deref() == Some("budget_exhausted")
                    || text(line, "subtype").as_deref() == Some("error_max_budget_usd")),
            error_status,
            terminal_reason,
            usage: self.totals(),
            permission_denials: objects(line.field("permission_denials"))
                .filter_map(denial)
                .collect(),
        };
        // An error after a real success is ignored (AGENT-4).
        if success || !self.deciding.as_ref().is_some_and(|earlier| earlier.success) {
            self.deciding = Some(result.clone());
        }
        result
    }

    /// The best statement of a result line about this process alone. `total_cost_usd` and `modelUsage` of a resumed
    /// session contain earlier processes, and not even reliably, so of such a session only what came on top counts (AGENT-7).
    fn reported_usage(&self, line: Json<'_>) -> ReportedUsage {
        let models = |key| {
            line.field(key)
                .map(|models| model_usages(models, self.usage.prices()))
                .filter(|totals| !totals.models.is_empty())
        };
        let stated = line.field("total_cost_usd").and_then(Json::as_f64);
        let stated = stated.and_then(|dollars| Usd::from_dollars(dollars).ok());
        // Models without a price of their own are in the sum.
        let whole = |totals: &UsageTotals| !totals.lower_bound || stated.is_none();
        if let Some(totals) = models("model_usage_since_last_result").filter(whole) {
            return ReportedUsage::SinceLastResult(totals);
        }
        if let Some(totals) = models("modelUsage").filter(|_| !self.resumed).filter(whole) {
            return ReportedUsage::SinceProcessStart(totals);
        }
        let billed = line.field("usage").map(billed).unwrap_or_default();
        let Some(model) = self.model.clone() else {
            return ReportedUsage::Nothing;
        };
        match stated.and_then(|stated| self.own_share(stated, &model, &billed)) {
            Some(cost) if cost > Usd::ZERO || billed.is_nothing() => ReportedUsage::Money {
                model,
                tokens: billed.tokens,
                cost,
            },
            _ if billed.is_nothing() => ReportedUsage::Nothing,
            _ => ReportedUsage::Tokens { model, billed },
        }
    }

    /// What of a stated sum this process cost. A session that goes on states the sum of all its processes, but not of one that was killed, so
    /// it is no less than the tokens are worth.
    fn own_share(&self, stated: Usd, model: &str, billed: &Billed) -> Option<Usd> {
        if !self.resumed {
            return Some(stated);
        }
        let own = stated.saturating_sub(self.carried?);
        Some(own.max(billed.price(model, self.usage.prices()).unwrap_or(Usd::ZERO)))
    }
}

/// `result` is absent on error subtypes, which have `errors` instead.
fn result_text(line: Json<'_>) -> String {
    let errors = || {
        let errors = line.field("errors").into_iter().flat_map(Json::entries);
        errors.filter_map(Json::as_str).collect::<Vec<_>>().join("; ")
    };
    let said = text(line, "result").map_or_else(errors, Cow::into_owned);
    if said.is_empty() && flag(line, "is_error") {
        let subtype = text(line, "subtype").unwrap_or("unknown".into());
        return format!("the agent reported an error ({subtype})");
    }
    said
}

fn denial(entry: Json<'_>) -> Option<PermissionDenial> {
    Some(PermissionDenial {
        tool_name: text(entry, "tool_name")?.into_owned(),
        tool_use_id: text(entry, "tool_use_id").unwrap_or_default().into_owned(),
    })
}

/// What the API names in `usage` of messages and results.
pub(super) fn billed(usage: Json<'_>) -> Billed {
    let tokens = TokenUsage {
        input_tokens: count(usage, "input_tokens"),
        output_tokens: count(usage, "output_tokens"),
        cache_creation_tokens: count(usage, "cache_creation_input_tokens"),
        cache_read_tokens: count(usage, "cache_read_input_tokens"),
    };
    let inside = |outer, inner| usage.field(outer).map_or(0, |outer| count(outer, inner));
    Billed {
        tokens,
        long_cache_writes: inside("cache_creation", "ephemeral_1h_input_tokens"),
        web_searches: inside("server_tool_use", "web_search_requests"),
    }
}

/// Tokens and money by model, as claude itself names them.
pub(super) fn model_usages(models: Json<'_>, prices: &Prices) -> UsageTotals {
    let mut totals = UsageTotals::default();
    for (model, usage) in models.members().filter(|(_, usage)| usage.is_object()) {
        let (usage, priced) = model_usage(&model, usage, prices);
        totals.add(&model, usage);
        totals.lower_bound |= !priced;
    }
    totals
}

/// The usage of one model, and whether its price is known.
fn model_usage(model: &str, usage: Json<'_>, prices: &Prices) -> (ModelUsage, bool) {
    let billed = Billed {
        tokens: TokenUsage {
            input_tokens: count(usage, "inputTokens"),
            output_tokens: count(usage, "outputTokens"),
            cache_creation_tokens: count(usage, "cacheCreationInputTokens"),
            cache_read_tokens: count(usage, "cacheReadInputTokens"),
        },
        long_cache_writes: count(usage, "cacheCreationEphemeral1hInputTokens"),
        web_searches: count(usage, "webSearchRequests"),
    };
    let stated = usage.field("costUSD").and_then(Json::as_f64);
    let cost = stated
        .and_then(|dollars| Usd::from_dollars(dollars).ok())
        .or_else(|| billed.price(model, prices));
    let priced = cost.is_some() || billed.is_nothing();
    let usage = ModelUsage {
        tokens: billed.tokens,
        cost: cost.unwrap_or(Usd::ZERO),
    };
    (usage, priced)
}

/// A tool's answer is a string or a list of blocks; images and the like leave their type.
fn content_text(content: Json<'_>) -> Cow<'_, str> {
    if let Some(text) = content.as_str() {
        return text;
    }
    if !content.is_list() {
        return content.to_value().to_string().into();
    }
    let blocks = objects(Some(content)).map(|block| match text(block, "text") {
        Some(text) => text,
        None => format!("[{}]", text(block, "type").unwrap_or("unknown".into())).into(),
    });
    blocks.collect::<Vec<_>>().join("\n").into()
}

/// As much of a tool's answer as travels in events.
fn cut(whole: &str) -> String {
    let end = whole.char_indices().nth(ToolResult::MAX_CHARS);
    let end = end.map_or(whole.len(), |(at, _)| at);
    format!("{}...", &whole[..end])
}

fn objects<'d>(list: Option<Json<'d>>) -> impl Iterator<Item = Json<'d>> {
    let entries = list.into_iter().flat_map(Json::entries);
    entries.filter(|entry| entry.is_object())
}

fn text<'d>(object: Json<'d>, key: &str) -> Option<Cow<'d, str>> {
    object.field(key)?.as_str()
}

fn flag(object: Json<'_>, key: &str) -> bool {
    object.field(key).and_then(Json::as_bool).unwrap_or(false)
}

fn status(object: Json<'_>, key: &str) -> Option<u16> {
    u16::try_from(object.field(key)?.as_u64()?).ok()
}

/// A count, or 0 for what is none: absent, negative, infinite (D10).
fn count(object: Json<'_>, key: &str) -> u64 {
    object.field(key).and_then(whole_number).unwrap_or(0)
}

/// Some programs print counts as `3.0` or `568.2`.
fn whole_number(value: Json<'_>) -> Option<u64> {
    if let Some(whole) = value.as_u64() {
        return Some(whole);
    }
    let number = value.as_f64().filter(|number| (0.0..1e18).contains(number))?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range is checked above"
    )]
    Some(number as u64)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INIT: &str = r#"{"type":"system","subtype":"init","session_id":"s-1","model":"claude-sonnet-4-5"}"#;
    const OK: &str = r#"{"subtype":"success","result":"done","is_error":false,"type":"result"}"#;
    const BAD: &str = r#"{"type":"result","subtype":"success","result":"API Error: 500","is_error":true}"#;

    fn run(lines: &[&str], exit: ProcessExit) -> ExitOutcome {
        let mut decoder = ClaudeDecoder::new(false);
        for line in lines {
            decoder.line(line);
        }
        decoder.finish(exit, EndedBy::Itself, String::new(), 0)
    }

    #[track_caller]
    fn failure(outcome: &ExitOutcome) -> (&FailureReason, bool) {
        match &outcome.verdict {
            Verdict::Success => panic!("the agent succeeded"),
            Verdict::Failure {
                reason,
                context_exceeded,
                ..
            } => (reason, *context_exceeded),
        }
    }

    // covers: AGENT-3
    #[test]
    fn success_needs_exit_code_0_and_a_successful_result() {
        assert!(run(&[INIT, OK], ProcessExit::Exited(0)).verdict.is_success());
        assert!(!run(&[INIT, OK], ProcessExit::Exited(143)).verdict.is_success());
        assert!(!run(&[INIT, OK], ProcessExit::Signaled(9)).verdict.is_success());
        assert!(!run(&[INIT, BAD], ProcessExit::Exited(0)).verdict.is_success());
        assert!(!run(&[INIT], ProcessExit::Exited(0)).verdict.is_success());
    }

    /// What background work keeps alive is ended by a signal, which says nothing about the work that was done.
    #[test]
    fn an_agent_that_we_ended_after_its_success_has_succeeded() {
        let ended = |lines: &[&str], exit| {
            let mut decoder = ClaudeDecoder::new(false);
            for line in lines {
                decoder.line(line);
            }
            let outcome = decoder.finish(exit, EndedBy::Us, String::new(), 0);
            outcome.verdict.is_success()
        };
        for exit in [
            ProcessExit::Exited(143),
            ProcessExit::Exited(0),
            ProcessExit::Signaled(9),
        ] {
            assert!(ended(&[INIT, OK], exit), "{exit}");
            assert!(ended(&[INIT, OK, INIT, BAD], exit), "{exit}");
            assert!(!ended(&[INIT, BAD], exit), "{exit}");
            assert!(!ended(&[INIT], exit), "{exit}");
        }
    }

    /// As claude 2.1.330 prints it for a subscription.
    #[test]
    fn a_usage_limit_names_its_end() {
        let event = |status: &str| {
            format!(
                r#"{{"type":"rate_limit_event","rate_limit_info":{{"status":"{status}","resetsAt":1795449600,"rateLimitType":"five_hour"}}}}"#
            )
        };
        let limit =
            r#"{"type":"result","is_error":true,"result":"You've hit your limit","api_error_status":429}"#;
        let end = Timestamp::parse("2026-11-23T16:00:00Z").unwrap();
        let until = |lines: &[&str]| {
            let outcome = run(lines, ProcessExit::Exited(1));
            let (reason, _) = failure(&outcome);
            reason.retry_at
        };
        let [rejected, allowed] = ["rejected", "allowed_warning"].map(event);
        assert_eq!(until(&[INIT, &rejected, limit]), Some(end));
        assert_eq!(until(&[INIT, &allowed, limit]), None);
        assert_eq!(until(&[INIT, &rejected, &allowed, limit]), None);
        assert_eq!(until(&[INIT, &rejected, BAD]), None, "another failure");
    }

    // covers: AGENT-4
    #[test]
    fn an_error_after_a_real_success_is_ignored() {
        assert!(run(&[INIT, OK, BAD], ProcessExit::Exited(0)).verdict.is_success());
        assert!(run(&[INIT, BAD, OK], ProcessExit::Exited(0)).verdict.is_success());
    }

    // covers: S5
    #[test]
    fn a_missing_session_and_a_missing_result_have_reasons_of_their_own() {
        let outcome = run(&[], ProcessExit::Exited(0));
        assert_eq!(
            failure(&outcome).0,
            &FailureReason::unknown(false, "the agent exited with code 0 without reporting a session")
        );
        let outcome = run(&[INIT], ProcessExit::Signaled(9));
        assert_eq!(
            failure(&outcome).0,
            &FailureReason::unknown(
                true,
                "the agent was killed by signal 9 without reporting a result"
            )
        );
        assert_eq!(outcome.exit.code(), 137);
    }

    #[test]
    fn without_a_result_the_words_on_standard_error_count() {
        let mut decoder = ClaudeDecoder::new(false);
        decoder.line(INIT);
        let outcome = decoder.finish(
            ProcessExit::Exited(1),
            EndedBy::Itself,
            "connect ECONNREFUSED\n".into(),
            0,
        );
        let (reason, _) = failure(&outcome);
        assert_eq!((reason.kind, reason.retriable), (FailureKind::ApiError, true));
    }

    // covers: AGENT-2
    #[test]
    fn only_the_opening_line_names_the_session() {
        let mut decoder = ClaudeDecoder::new(true);
        let echo =
            r#"{"type":"result","session_id":"asked-for","is_error":true,"errors":["no conversation"]}"#;
        let events = decoder.line(echo);
        assert!(matches!(&events[..], [AgentEvent::Result(result)] if result.text == "no conversation"));
    }

    // covers: F11, AGENT-1
    #[test]
    fn what_is_no_json_object_is_told_with_its_start() {
        let mut decoder = ClaudeDecoder::new(false);
        let deep = "[".repeat(100_000);
        for line in [
            "plain words",
            "[1,2]",
            "12",
            "{\"type\":",
            deep.as_str(),
            "{\"a\":1e999}",
        ] {
            let start: String = line.chars().take(UNPARSED_CHARS).collect();
            assert_eq!(decoder.line(line), [AgentEvent::Unparsed { start }]);
        }
        for line in ["", "  ", "{}", r#"{"type":"new_thing"}"#, r#"{"type":7}"#] {
            assert_eq!(decoder.line(line), []);
        }
    }

    // covers: AGENT-1
    #[test]
    fn a_known_line_of_an_unknown_shape_is_passed_over() {
        let mut decoder = ClaudeDecoder::new(false);
        for line in [
            r#"{"type":"assistant"}"#,
            r#"{"type":"assistant","message":{"content":"text"}}"#,
            r#"{"type":"assistant","message":{"content":[{"type":"text"},{"type":"novel"},7]}}"#,
            r#"{"type":"user","message":{"content":"a plain prompt"}}"#,
            r#"{"type":"system","subtype":"init"}"#,
            r#"{"type":"system","subtype":"init","session_id":""}"#,
        ] {
            assert_eq!(decoder.line(line), [], "{line}");
        }
    }

    // covers: D10
    #[test]
    fn numbers_that_cannot_be_counts_or_money_are_left_out() {
        let result = r#"{"type":"result","is_error":false,"model_usage_since_last_result":
            {"claude-sonnet-4-5":{"inputTokens":-5,"outputTokens":"9","cacheReadInputTokens":1000,"costUSD":-2}}}"#;
        let usage = run(&[INIT, result], ProcessExit::Exited(0)).usage;
        assert_eq!((usage.tokens.total(), usage.cost), (1_000, Usd::from_micros(300)));
    }

    // covers: AGENT-7
    #[test]
    fn a_resumed_session_never_counts_the_cumulative_numbers() {
        let result = r#"{"type":"result","is_error":false,"total_cost_usd":9.0,
            "modelUsage":{"claude-sonnet-4-5":{"inputTokens":99,"costUSD":9.0}},"usage":{"input_tokens":10}}"#;
        let mut resumed = ClaudeDecoder::new(true);
        resumed.line(INIT);
        resumed.line(result);
        let usage = resumed
            .finish(ProcessExit::Exited(0), EndedBy::Itself, String::new(), 0)
            .usage;
        assert_eq!(usage.cost, Usd::from_micros(30));
        let fresh = run(&[INIT, result], ProcessExit::Exited(0)).usage;
        assert_eq!(fresh.cost, Usd::from_micros(9_000_000));
    }

    #[test]
    fn a_sum_without_a_list_of_models_counts() {
        let result = |dollars: f64| {
            format!(
                r#"{{"type":"result","is_error":false,"total_cost_usd":{dollars},"usage":{{"input_tokens":10}}}}"#
            )
        };
        let init = r#"{"type":"system","subtype":"init","session_id":"s-1","model":"somebodys-model"}"#;
        let usage = |mut decoder: ClaudeDecoder, dollars: f64| {
            decoder.line(init);
            decoder.line(&result(dollars));
            decoder
                .finish(ProcessExit::Exited(0), EndedBy::Itself, String::new(), 0)
                .usage
        };
        let fresh = usage(ClaudeDecoder::new(false), 0.5);
        assert_eq!(
            (fresh.cost, fresh.tokens.input_tokens),
            (Usd::from_micros(500_000), 10)
        );
        let carried = Usd::from_micros(400_000);
        let resumed = usage(ClaudeDecoder::new(true).carrying(carried), 0.5);
        assert_eq!(resumed.cost, Usd::from_micros(100_000));
        let unknown = usage(ClaudeDecoder::new(true), 0.5);
        assert_eq!((unknown.cost, unknown.lower_bound), (Usd::ZERO, true));
    }

    const BEGIN: &str = r#"{"type":"stream_event","parent_tool_use_id":null,"event":{"type":"message_start",
        "message":{"id":"m-1","model":"claude-sonnet-4-5","usage":{"input_tokens":1000,"output_tokens":1}}}}"#;
    const BLOCK: &str = r#"{"type":"assistant","parent_tool_use_id":null,"message":{"id":"m-1",
        "model":"claude-sonnet-4-5","stop_reason":null,"content":[],"usage":{"input_tokens":1000,"output_tokens":1}}}"#;
    const END: &str = r#"{"type":"stream_event","parent_tool_use_id":null,"event":{"type":"message_delta",
        "delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":4000,"cache_creation_input_tokens":10,
        "cache_creation":{"ephemeral_1h_input_tokens":10},"server_tool_use":{"web_search_requests":2}}}}"#;

    #[test]
    fn a_message_that_is_told_in_pieces_is_known_when_it_has_ended() {
        let mut decoder = ClaudeDecoder::new(false);
        decoder.line(INIT);
        let begun = decoder.line(BEGIN);
        assert!(matches!(&begun[..], [AgentEvent::Usage(begun)] if begun.is_lower_bound));
        assert_eq!(decoder.line(BLOCK), []);
        let [AgentEvent::Usage(end)] = &decoder.line(END)[..] else {
            panic!("the end of the message is told");
        };
        assert_eq!((end.is_new, end.added.tokens.output_tokens), (false, 3_999));
        assert!(!end.is_lower_bound);
        let outcome = decoder.finish(ProcessExit::Signaled(9), EndedBy::Itself, String::new(), 0);
        let usage = outcome.usage;
        assert_eq!(
            (usage.tokens.input_tokens, usage.tokens.output_tokens),
            (1_000, 4_000)
        );
        // 1000 x 3 + 4000 x 15 + 10 x 6 micro-dollars and two searches.
        assert_eq!((usage.cost, usage.lower_bound), (Usd::from_micros(83_060), false));
    }

    #[test]
    fn what_a_sub_agent_wrote_is_read_from_its_transcript_when_it_goes_on() {
        let line = |id: &str| {
            format!(
                r#"{{"type":"assistant","parent_tool_use_id":"t","message":{{"id":"{id}","model":"claude-sonnet-4-5",
                "content":[],"usage":{{"input_tokens":300,"output_tokens":1}}}}}}"#
            )
        };
        let mut decoder = ClaudeDecoder::new(false);
        decoder.line(INIT);
        decoder.line(BEGIN);
        assert_eq!(decoder.helped_session(), None);
        decoder.line(&line("h-1"));
        assert!(decoder.helped_session().is_some());
        let mut transcript = Transcript::new(None);
        transcript.line(
            r#"{"type":"assistant","message":{"id":"h-1","model":"claude-sonnet-4-5","stop_reason":"tool_use",
            "usage":{"input_tokens":300,"output_tokens":4000}}}"#,
        );
        let mut events = Vec::new();
        decoder.overhear(Some(transcript), &mut events);
        let [AgentEvent::Usage(told)] = &events[..] else {
            panic!("{events:?}");
        };
        assert_eq!((told.added.tokens.output_tokens, told.is_new), (3_999, false));
        assert!(told.parent_tool_use_id.is_some() && decoder.helped_session().is_none());
    }

    // covers: AGENT-8
    #[test]
    fn what_a_killed_process_was_asking_for_is_not_known() {
        let asking = r#"{"type":"system","subtype":"status","status":"requesting"}"#;
        let lower_bound = |lines: &[&str]| run(lines, ProcessExit::Signaled(9)).usage.lower_bound;
        assert!(!lower_bound(&[INIT, asking, BEGIN, END]));
        assert!(lower_bound(&[INIT, asking, BEGIN]));
        assert!(lower_bound(&[INIT, asking, BEGIN, END, asking]));
        let result = |reason: &str| {
            format!(
                r#"{{"type":"result","is_error":true,"terminal_reason":"{reason}","total_cost_usd":0.1}}"#
            )
        };
        assert!(lower_bound(&[INIT, asking, &result("aborted_streaming")]));
        assert!(!lower_bound(&[
            INIT,
            asking,
            BEGIN,
            END,
            &result("aborted_tools")
        ]));
        assert!(lower_bound(&[INIT, asking, &result("api_error")]));
        assert!(!lower_bound(&[INIT, asking, &result("blocking_limit")]));
        let refused = result("api_error").replace("is_error", r#"api_error_status":500,"is_error"#);
        assert!(!lower_bound(&[INIT, asking, &refused]));
        // A program that tells no pieces never tells the output of a message.
        assert!(lower_bound(&[INIT, BLOCK]));
        let ended = BLOCK.replace(r#""stop_reason":null"#, r#""stop_reason":"end_turn""#);
        assert!(!lower_bound(&[INIT, &ended]));
    }

    /// As claude 2.1.329 and 2.1.330 print it when a connection breaks off in the middle of an answer.
    // covers: AGENT-8
    #[test]
    fn an_answer_that_was_asked_for_again_may_have_cost_twice() {
        let asking = r#"{"type":"system","subtype":"status","status":"requesting"}"#;
        let retry = |status: &str| {
            format!(
                r#"{{"type":"system","subtype":"api_retry","attempt":1,"error_status":{status},"error":"unknown"}}"#
            )
        };
        let whole = BLOCK.replace(r#""stop_reason":null"#, r#""stop_reason":"end_turn""#);
        let lower_bound = |lines: &[&str]| run(lines, ProcessExit::Exited(0)).usage.lower_bound;
        assert!(lower_bound(&[INIT, asking, &retry("null"), BEGIN, END, OK]));
        assert!(!lower_bound(&[INIT, asking, &retry("529"), BEGIN, END, OK]));
        assert!(lower_bound(&[INIT, asking, &whole, OK]));
        assert!(!lower_bound(&[INIT, asking, BEGIN, &whole, END, OK]));
    }

    // covers: AGENT-5
    #[test]
    fn a_long_tool_answer_is_cut_between_characters() {
        let mut decoder = ClaudeDecoder::new(false);
        let line = format!(
            r#"{{"type":"user","message":{{"content":[{{"type":"tool_result","tool_use_id":"t","content":"{}"}}]}}}}"#,
            "ü".repeat(2_501)
        );
        let events = decoder.line(&line);
        let [AgentEvent::ToolResult(result)] = &events[..] else {
            panic!("{events:?}");
        };
        assert_eq!(
            (
                result.truncated,
                result.original_length,
                result.text.chars().count()
            ),
            (true, 2_501, 2_503)
        );
    }

    #[test]
    fn a_compacted_conversation_is_told() {
        let line = r#"{"type":"system","subtype":"compact_boundary","compact_metadata":{}}"#;
        assert_eq!(ClaudeDecoder::new(false).line(line), [AgentEvent::Compacted]);
    }
}
