//! Usage that codex writes to a session's rollout file.
//!
//! The stream reports the tokens of a session only with its last line, and not at all when a turn has failed or the process was killed. The rollout
//! file has the tokens of each response, its service tier, and the searches. It holds the whole session, so a process that resumed one counts only
//! the lines that are younger than itself (AGENT-17).

use super::line::{Payload, RolloutLine};
use crate::lenient::Object;
use crate::records::{AgentRecords, RecordedMessage, SessionLines, has_word};
use hankweave_core::cost::{Billed, ServiceTier, TokenUsage, UsageConfidence};
use hankweave_core::time::Timestamp;

/// Words of the lines that report usage or a shortened conversation.
const WORDS: [&str; 6] = [
    "\"turn_context\"",
    "\"token_usage_record\"",
    "\"token_count\"",
    "\"compacted\"",
    "\"thread_settings_applied\"",
    "\"web_search_call\"",
];

/// Reads the lines of the rollout file of one session.
#[derive(Debug)]
pub struct Rollout {
    /// Start of this process; older lines belong to an earlier one. `None` counts all lines.
    since: Option<Timestamp>,
    /// Model and service tier of the next responses.
    model: String,
    tier: ServiceTier,
    /// Number of web searches since the last response.
    searches: u64,
    /// Tokens of the session up to the last line read.
    total: TokenUsage,
    /// Tokens of the session before this process.
    before: TokenUsage,
    /// A response of this process was read.
    has_own: bool,
    /// Responses since the last call of `take`.
    messages: Vec<RecordedMessage>,
    /// Number of sums that were counted in place of responses without an id.
    sums: u64,
    /// The conversation was shortened since the last call of `take`.
    compacted: bool,
    cut_short: bool,
}

impl Rollout {
    /// Returns a reader that counts the lines from `since` on, or all lines without it.
    #[must_use]
    pub fn new(since: Option<Timestamp>) -> Self {
        Self {
            since,
            model: String::new(),
            tier: ServiceTier::Standard,
            searches: 0,
            total: TokenUsage::ZERO,
            before: TokenUsage::ZERO,
            has_own: false,
            messages: Vec::new(),
            sums: 0,
            compacted: false,
            cut_short: false,
        }
    }

    /// Counts the usage of one response. `is_earlier` means that an earlier process got it.
    fn count_response(&mut self, payload: Payload<'_>, is_earlier: bool) {
        let Some(tokens) = payload.usage.0.map(|usage| usage.tokens()) else {
            return;
        };
        let total = payload.thread_token_usage.0.map(|usage| usage.tokens());
        if let Some(total) = total.filter(|_| !is_earlier && !self.has_own) {
            // In a copied session the sums include the original session, whose lines are not in this file (AGENT-71).
            self.before = total.at_least(tokens) - tokens;
        }
        self.has_own |= !is_earlier;
        self.total = total.unwrap_or(self.total + tokens);
        match payload.response_id.into_owned() {
            Some(id) => self.add(id, tokens, is_earlier),
            None => self.add_sum(tokens, is_earlier),
        }
    }

    /// Reads a sum of all tokens so far. Older versions of codex write only sums, so an increase since the last one counts as a response.
    fn count_total(&mut self, payload: &Payload<'_>, is_earlier: bool) {
        let usage = payload
            .info
            .0
            .as_ref()
            .and_then(|info| info.total_token_usage.0.as_ref());
        let Some(total) = usage.map(super::line::Usage::tokens) else {
            return;
        };
        // The sum restarts at zero after the context was full.
        let grown = total.at_least(self.total) - self.total;
        self.total = total;
        if grown != TokenUsage::ZERO {
            self.add_sum(grown, is_earlier);
        } else if is_earlier {
            self.before = total;
        }
    }

    fn add_sum(&mut self, tokens: TokenUsage, is_earlier: bool) {
        self.sums += 1;
        self.add(format!("response-{}", self.sums), tokens, is_earlier);
    }

    fn add(&mut self, id: String, tokens: TokenUsage, is_earlier: bool) {
        if is_earlier {
            self.before = self.total;
            return;
        }
        let billed = Billed {
            web_searches: std::mem::take(&mut self.searches),
            tier: self.tier,
            ..Billed::from(tokens)
        };
        self.messages.push(RecordedMessage {
            id,
            model: self.model.clone(),
            billed,
            word: UsageConfidence::Final,
        });
    }
}

impl SessionLines for Rollout {
    fn line(&mut self, line: &str) {
        if !has_word(line, &WORDS) {
            return;
        }
        let Ok(Object(Some(line))) = serde_json::from_str::<Object<RolloutLine<'_>>>(line) else {
            return;
        };
        let Some(payload) = line.payload.0 else {
            return;
        };
        let at = line.timestamp.as_deref().and_then(|at| Timestamp::parse(at).ok());
        let is_earlier = self.since.is_some_and(|since| at.is_none_or(|at| at < since));
        match (line.kind.as_deref(), payload.kind.as_deref()) {
            (Some("turn_context"), _) => self.model = payload.model.into_owned().unwrap_or_default(),
            (Some("token_usage_record"), _) => self.count_response(payload, is_earlier),
            (Some("event_msg"), Some("thread_settings_applied")) => {
                let settings = payload.thread_settings.0.unwrap_or_default();
                self.tier = ServiceTier::named(settings.service_tier.as_deref().unwrap_or_default());
            }
            (Some("response_item"), Some("web_search_call")) => {
                let is_search = payload.action.0.is_some_and(|action| action.is_search());
                self.searches += u64::from(is_search && !is_earlier);
            }
            (Some("compacted"), _) => self.compacted |= !is_earlier,
            (Some("event_msg"), Some("token_count")) => self.count_total(&payload, is_earlier),
            _ => {}
        }
    }

    fn cut_short(&mut self) {
        self.cut_short = true;
    }

    /// Always true: the file's name has the whole id of the session.
    fn is_of_session(&self) -> bool {
        true
    }

    fn take(&mut self) -> AgentRecords {
        AgentRecords {
            messages: std::mem::take(&mut self.messages),
            before: self.before,
            compacted: std::mem::take(&mut self.compacted),
            incomplete: self.cut_short,
            ends_open: self.cut_short,
            ..AgentRecords::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rollout(since: Option<&str>, lines: &[&str]) -> AgentRecords {
        let mut rollout = Rollout::new(since.map(|at| Timestamp::parse(at).unwrap()));
        for line in lines {
            rollout.line(line);
        }
        rollout.take()
    }

    const CONTEXT: &str = r#"{"timestamp":"2026-11-23T10:00:00.000Z","type":"turn_context","payload":{"model":"gpt-5.1-codex"}}"#;
    const FIRST: &str = r#"{"timestamp":"2026-11-23T10:00:01.000Z","type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"input_tokens":100,"cached_input_tokens":40,"output_tokens":7}}}}"#;
    const SECOND: &str = r#"{"timestamp":"2026-11-23T10:00:02.000Z","type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"input_tokens":250,"cached_input_tokens":140,"output_tokens":9}}}}"#;

    // covers: AGENT-17, AGENT-47
    #[test]
    fn sums_that_grow_are_responses_and_repeated_ones_are_not() {
        let recorded = rollout(None, &[CONTEXT, FIRST, FIRST, SECOND, SECOND, "{", "[]", "{}"]);
        let told: Vec<_> = recorded
            .messages
            .iter()
            .map(|message| (message.billed.tokens.total(), message.billed.tokens.input_tokens))
            .collect();
        assert_eq!(told, [(107, 60), (152, 50)]);
        assert_eq!(recorded.messages[0].model, "gpt-5.1-codex");
    }

    // covers: AGENT-17, AGENT-71
    #[test]
    fn what_was_used_before_a_session_was_copied_is_the_baseline() {
        let copied = r#"{"timestamp":"2026-11-23T10:00:03.000Z","type":"token_usage_record","payload":{"response_id":"r-2","usage":{"input_tokens":100,"output_tokens":20},"thread_token_usage":{"input_tokens":250,"output_tokens":29}}}"#;
        let recorded = rollout(Some("2026-11-23T10:00:02.500Z"), &[CONTEXT, copied]);
        assert_eq!(
            (recorded.before.input_tokens, recorded.before.output_tokens),
            (150, 9)
        );
        assert_eq!(recorded.messages[0].billed.tokens.input_tokens, 100);
    }

    // covers: AGENT-17
    #[test]
    fn what_an_earlier_process_used_is_the_baseline() {
        let recorded = rollout(Some("2026-11-23T10:00:02.000Z"), &[CONTEXT, FIRST, SECOND]);
        assert_eq!((recorded.messages.len(), recorded.before.total()), (1, 107));
    }

    // covers: AGENT-17, AGENT-34
    #[test]
    fn a_response_has_the_tier_of_its_session_and_the_searches_before_it() {
        const FAST: &str = r#"{"timestamp":"2026-11-23T10:00:00.500Z","type":"event_msg","payload":{"type":"thread_settings_applied","thread_settings":{"model":"gpt-5.5","service_tier":"priority"}}}"#;
        const SEARCH: &str = r#"{"timestamp":"2026-11-23T10:00:00.600Z","type":"response_item","payload":{"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"weather"}}}"#;
        const OPEN: &str = r#"{"timestamp":"2026-11-23T10:00:00.700Z","type":"response_item","payload":{"type":"web_search_call","id":"ws_2","status":"completed","action":{"type":"open_page","url":"http://x"}}}"#;
        let told = |since: Option<&str>| -> Vec<_> {
            let lines = [CONTEXT, FAST, SEARCH, SEARCH, OPEN, FIRST, SECOND];
            let messages = rollout(since, &lines).messages;
            let billed = messages.iter().map(|message| message.billed);
            billed.map(|billed| (billed.web_searches, billed.tier)).collect()
        };
        let fast = ServiceTier::Priority;
        assert_eq!(told(None), [(2, fast), (0, fast)]);
        // Those of an earlier process were paid for with it; its settings stay.
        assert_eq!(told(Some("2026-11-23T10:00:02.000Z")), [(0, fast)]);
    }

    // covers: AGENT-18
    #[test]
    fn a_conversation_that_this_process_shortened_is_told_once() {
        const COMPACTED: &str = r#"{"timestamp":"2026-11-23T10:00:03.000Z","type":"compacted","payload":{"message":"A summary."}}"#;
        let mut file = Rollout::new(None);
        assert!(!file.take().compacted);
        file.line(COMPACTED);
        assert!(file.take().compacted);
        assert!(!file.take().compacted);
        let later = rollout(Some("2026-11-23T10:00:04.000Z"), &[CONTEXT, COMPACTED]);
        assert!(!later.compacted);
    }
}
