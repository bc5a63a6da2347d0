//! The line protocol of claude, as a pure state machine.
//!
//! Input: the lines of `claude -p --output-format stream-json --verbose`, as a rule with `--include-partial-messages`. Output: [`AgentEvent`]s.
//! What each line means, and which of its numbers can be trusted, was measured (AGENT-1 to AGENT-8).
//! Lines, fields and values that are not known are passed over: the program is newer than this code.

mod line;
mod transcript;

use std::collections::HashMap;
use std::sync::Arc;

use super::classify::{is_context_exceeded, reason, without_result};
use super::decoder::{AgentDecoder, AgentLine, ProcessEnd};
use super::event::{AgentEvent, AgentResult, MessageUsage, PermissionDenial, ToolResult};
use super::failure::FailureKind;
use super::launch::Launch;
use super::lenient::{Count, Object};
use super::open_tools::{MAX_REMEMBERED_BYTES, OpenTools};
use super::outcome::{ExitOutcome, Verdict};
use super::records::{Recorded, Records};
use super::resets::moment;
use crate::cost::pricing::Prices;
use crate::cost::{Billed, ProcessUsage, ReportedUsage, Statement, UsageTotals, Usd};
use crate::id::SessionId;
use crate::time::Timestamp;

use line::{Block, Denial, Message, Piece, RateLimit, StreamLine, Usage, content_text};
pub use transcript::Transcript;

/// Messages that are written at the same time, one for each sub-agent.
const MAX_WRITTEN: usize = 256;

/// Reads the output of one claude process.
#[derive(Debug)]
pub struct ClaudeDecoder {
    resumed: bool,
    /// What the earlier processes of the session cost, where that is known.
    carried: Option<Usd>,
    model: Option<String>,
    session: Option<SessionId>,
    open_tools: OpenTools,
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
            open_tools: OpenTools::default(),
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

    /// The decoder of what is launched.
    #[must_use]
    pub fn of(launch: &Launch) -> Self {
        let decoder = Self::new(launch.resume.is_some()).priced_by(launch.prices.clone());
        match launch.carried {
            Some(cost) => decoder.carrying(cost),
            None => decoder,
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
        let mut events = Vec::new();
        self.hear(AgentLine::Text(line), &mut events);
        events
    }

    fn said(&mut self, mut line: StreamLine<'_>, events: &mut Vec<AgentEvent>) {
        let message = std::mem::take(&mut line.message).0;
        let parent = std::mem::take(&mut line.parent_tool_use_id);
        let parent = parent.as_deref();
        match line.kind.as_deref() {
            Some("system") => events.extend(self.system(line)),
            Some("stream_event") => events.extend(self.piece(line.event, parent)),
            Some("assistant") => self.assistant(message, parent, events),
            Some("user") => {
                let blocks = message.unwrap_or_default().content.objects();
                events.extend(blocks.filter_map(|block| self.tool_result(block, parent)));
            }
            Some("result") => events.push(AgentEvent::Result(self.result(line))),
            Some("rate_limit_event") => self.limit(line.rate_limit_info),
            _ => {}
        }
    }

    fn is_lower_bound(&self) -> bool {
        self.asking || self.given_up || self.summed_up || self.usage.is_lower_bound()
    }

    /// Neither the exit code nor the result decides alone (AGENT-3).
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

    /// What a provider says of the limits of a subscription; other states than `rejected` let requests through.
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
                self.asking |= line.status.as_deref() == Some("requesting");
                self.summed_up |= line.status.as_deref() == Some("compacting");
                None
            }
            "compact_boundary" => Some(AgentEvent::Compacted),
            "api_retry" => {
                let status = status(line.error_status);
                // Whoever answers with a status serves nothing; a connection that is lost may have carried half an answer.
                self.given_up |= status.is_none();
                Some(AgentEvent::Retrying {
                    attempt: line.attempt.or_none(),
                    max_retries: line.max_retries.0,
                    delay_ms: line.retry_delay_ms.0,
                    status,
                    error: line.error.into_owned(),
                })
            }
            _ => None,
        }
    }

    /// The only line whose session id counts (AGENT-2): a failed resume echoes the id that was asked for.
    fn init(&mut self, line: StreamLine<'_>) -> Option<AgentEvent> {
        let session_id = SessionId::new(line.session_id.into_owned()?).ok()?;
        self.session = Some(session_id.clone());
        self.model = line.model.into_owned();
        Some(AgentEvent::SessionStarted {
            session_id,
            model: self.model.clone(),
        })
    }

    fn assistant(
        &mut self,
        message: Option<Message<'_>>,
        parent: Option<&str>,
        events: &mut Vec<AgentEvent>,
    ) {
        let Some(message) = message else {
            return;
        };
        events.extend(
            message
                .content
                .objects()
                .filter_map(|block| self.block(block, parent)),
        );
        let (Some(id), Some(model), Some(usage)) = (message.id.0, message.model.0, message.usage.0) else {
            return;
        };
        let word = match message.stop_reason.0 {
            Some(_) => Statement::Final,
            None => Statement::Rough,
        };
        let billed = usage.billed();
        // An answer that comes whole is asked for when the one that was to come in pieces has broken off.
        let whole = parent.is_none() && word == Statement::Final && !billed.is_nothing();
        self.given_up |= self.asking && whole;
        self.asking &= !whole;
        events.extend(self.message_usage(&id, &model, billed, word, parent));
    }

    /// A piece of a message that is being written; only its first and its last piece tell of usage.
    fn piece(&mut self, piece: Object<Piece<'_>>, parent: Option<&str>) -> Option<AgentEvent> {
        let piece = piece.0?;
        match piece.kind.as_deref()? {
            "message_start" => {
                let message = piece.message.0?;
                let (id, model) = (message.id.0?, message.model.0?);
                self.asking &= parent.is_some();
                self.remember_written(parent, &id, &model);
                self.message_usage(&id, &model, message.usage.0?.billed(), Statement::Begun, parent)
            }
            "message_delta" => {
                // One that breaks off has no reason to stop, and is told without its true output.
                let word = match piece.delta.0.and_then(|delta| delta.stop_reason.0) {
                    Some(_) => Statement::Final,
                    None => Statement::Begun,
                };
                let (id, model) = self.written.get(&parent.map(str::to_owned))?.clone();
                self.message_usage(&id, &model, piece.usage.0?.billed(), word, parent)
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

    fn tool_result(&mut self, block: Block<'_>, parent: Option<&str>) -> Option<AgentEvent> {
        if block.kind.as_deref() != Some("tool_result") {
            return None;
        }
        let tool_use_id = block.tool_use_id.into_owned()?;
        let tool_name = self.open_tools.remove(&tool_use_id);
        let whole = content_text(block.content);
        Some(AgentEvent::ToolResult(ToolResult {
            parent_tool_use_id: parent.map(str::to_owned),
            ..ToolResult::new(tool_use_id, tool_name, whole, block.is_error.0)
        }))
    }

    fn result(&mut self, mut line: StreamLine<'_>) -> AgentResult {
        let reported = self.reported_usage(&mut line);
        self.usage.result(reported);
        let said = line.result_text();
        let terminal_reason = line.terminal_reason.into_owned();
        let error_status = status(line.api_error_status);
        let lost = terminal_reason.as_deref().is_some_and(|reason| {
            reason.starts_with("aborted") || (reason == "api_error" && error_status.is_none())
        });
        self.given_up |= self.asking && lost;
        (self.asking, self.summed_up, self.helped) = (false, false, false);
        self.written.clear();
        let success = !line.is_error.0;
        let result = AgentResult {
            success,
            context_exceeded: !success
                && (terminal_reason.as_deref().is_some_and(is_context_exceeded)
                    || is_context_exceeded(&said)),
            text: said,
            budget_exhausted: !success
                && (terminal_reason.as_deref() == Some("budget_exhausted")
                    || line.subtype.as_deref() == Some("error_max_budget_usd")),
            error_status,
            terminal_reason,
            usage: AgentDecoder::usage(self),
            permission_denials: line.permission_denials.objects().filter_map(denial).collect(),
        };
        // An error after a real success is ignored (AGENT-4).
        if success || !self.deciding.as_ref().is_some_and(|earlier| earlier.success) {
            self.deciding = Some(result.clone());
        }
        result
    }

    /// The best statement of a result line about this process alone. `total_cost_usd` and `modelUsage` of a resumed
    /// session contain earlier processes, and not even reliably, so of such a session only what was added counts (AGENT-7).
    fn reported_usage(&self, line: &mut StreamLine<'_>) -> ReportedUsage {
        let prices = self.usage.prices();
        let stated = line
            .total_cost_usd
            .0
            .and_then(|dollars| Usd::from_dollars(dollars).ok());
        // Models without a price of their own are in the sum.
        let whole = |totals: &UsageTotals| !totals.lower_bound || stated.is_none();
        let since_last = std::mem::take(&mut line.model_usage_since_last_result);
        if let Some(totals) = since_last.totals(prices).filter(whole) {
            return ReportedUsage::SinceLastResult(totals);
        }
        let since_start = std::mem::take(&mut line.model_usage);
        if let Some(totals) = since_start.totals(prices).filter(|_| !self.resumed).filter(whole) {
            return ReportedUsage::SinceProcessStart(totals);
        }
        let billed = line.usage.0.as_ref().map(Usage::billed).unwrap_or_default();
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

/// Decides how the process did: success is a successful result together with exit code 0, neither alone. A process that we have ended
/// cannot choose its exit code: of it the result alone is asked. The words of standard error count when there is no result.
impl AgentDecoder for ClaudeDecoder {
    fn hear(&mut self, line: AgentLine<'_>, events: &mut Vec<AgentEvent>) {
        if let Some(line) = line.read(events) {
            self.said(line, events);
        }
    }

    fn finish(&mut self, end: ProcessEnd) -> ExitOutcome {
        let verdict = self.verdict(&end);
        end.outcome(verdict, AgentDecoder::usage(self), self.deciding.is_some())
    }

    fn usage(&self) -> UsageTotals {
        let mut totals = self.usage.totals();
        totals.lower_bound = self.is_lower_bound();
        totals
    }

    /// The transcripts tell the output of sub-agents, which the stream does not, and all that a process used that did not live to say it.
    fn wants(&self, records: Records) -> Option<&SessionId> {
        let wanted = match records {
            Records::SoFar => self.helped,
            Records::Whole => self.deciding.is_none(),
        };
        self.session.as_ref().filter(|_| wanted)
    }

    fn recall(&mut self, records: Records, recorded: Option<Recorded>, events: &mut Vec<AgentEvent>) {
        match (records, recorded) {
            (Records::SoFar, recorded) => {
                let messages = recorded.into_iter().flat_map(|recorded| recorded.messages);
                for message in messages.filter(|message| message.word == Statement::Final) {
                    // Which of them it was does not matter to anybody.
                    let parent = Some("sub-agent");
                    let (id, model) = (&message.id, &message.model);
                    events.extend(self.message_usage(id, model, message.billed, message.word, parent));
                }
                self.helped = false;
            }
            (Records::Whole, Some(recorded)) => {
                self.asking |= recorded.incomplete;
                recorded.settle(&mut self.usage);
            }
            (Records::Whole, None) => {}
        }
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
mod tests {
    use super::super::outcome::{EndedBy, ProcessExit};
    use super::*;
    use crate::agent::decoder::UNPARSED_CHARS;
    use crate::agent::failure::FailureReason;

    const INIT: &str = r#"{"type":"system","subtype":"init","session_id":"s-1","model":"claude-sonnet-4-5"}"#;
    const OK: &str = r#"{"subtype":"success","result":"done","is_error":false,"type":"result"}"#;
    const BAD: &str = r#"{"type":"result","subtype":"success","result":"API Error: 500","is_error":true}"#;

    fn run(lines: &[&str], exit: ProcessExit) -> ExitOutcome {
        let mut decoder = ClaudeDecoder::new(false);
        for line in lines {
            decoder.line(line);
        }
        decoder.finish(ProcessEnd::of(exit, EndedBy::Itself))
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
            let outcome = decoder.finish(ProcessEnd::of(exit, EndedBy::Us));
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
        let outcome = decoder.finish(ProcessEnd {
            stderr_tail: "connect ECONNREFUSED\n".into(),
            ..ProcessEnd::of(ProcessExit::Exited(1), EndedBy::Itself)
        });
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
        for line in ["plain words", "[1,2]", "12", "{\"type\":", deep.as_str()] {
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
            .finish(ProcessEnd::of(ProcessExit::Exited(0), EndedBy::Itself))
            .usage;
        assert_eq!(usage.cost, Usd::from_micros(30));
        let fresh = run(&[INIT, result], ProcessExit::Exited(0)).usage;
        assert_eq!(fresh.cost, Usd::from_micros(9_000_000));
    }

    // covers: AGENT-7
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
                .finish(ProcessEnd::of(ProcessExit::Exited(0), EndedBy::Itself))
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
        let outcome = decoder.finish(ProcessEnd::of(ProcessExit::Signaled(9), EndedBy::Itself));
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
        assert_eq!(decoder.wants(Records::SoFar), None);
        decoder.line(&line("h-1"));
        assert!(decoder.wants(Records::SoFar).is_some());
        let mut transcript = Transcript::new(None);
        transcript.line(
            r#"{"type":"assistant","message":{"id":"h-1","model":"claude-sonnet-4-5","stop_reason":"tool_use",
            "usage":{"input_tokens":300,"output_tokens":4000}}}"#,
        );
        let mut events = Vec::new();
        decoder.recall(Records::SoFar, Some(transcript.finish()), &mut events);
        let [AgentEvent::Usage(told)] = &events[..] else {
            panic!("{events:?}");
        };
        assert_eq!((told.added.tokens.output_tokens, told.is_new), (3_999, false));
        assert!(told.parent_tool_use_id.is_some() && decoder.wants(Records::SoFar).is_none());
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
