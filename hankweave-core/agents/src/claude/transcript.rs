//! Transcripts that claude writes under its configuration folder, one file for a session and one for each sub-agent.
//!
//! Unlike the stream, a transcript has the true output of each message, those of sub-agents included, and it survives when the process is killed
//! (AGENT-8). It holds the whole session, so a process that resumed one counts only the lines that are younger than itself.

use std::collections::HashSet;
use std::sync::Arc;

use super::line::{Message, TranscriptLine};
use crate::lenient::Object;
use crate::records::{AgentRecords, RecordedMessage, SessionLines, has_word};
use hankweave_core::cost::pricing::Prices;
use hankweave_core::cost::{UsageConfidence, UsageTotals};
use hankweave_core::time::Timestamp;

/// Largest number of requests that are remembered until their answer is found.
const MOST_REQUESTS: usize = 1 << 16;

/// Words of the lines that report usage.
const WORDS: [&str; 3] = ["\"assistant\"", "\"api-request\"", "\"cost-state\""];

/// Reads the lines of one transcript: that of a session, or of one of its sub-agents.
#[derive(Debug)]
pub struct Transcript {
    /// Start of this process; older lines belong to an earlier one. `None` counts all lines.
    since: Option<Timestamp>,
    prices: Arc<Prices>,
    is_of_sub_agent: bool,
    /// Answers since the last call of `take`.
    answers: Vec<RecordedMessage>,
    /// Ids of the requests whose answer was not found yet.
    open_requests: HashSet<String>,
    /// Id of the last request, while it has no answer. Unlike an earlier one without an answer, it cannot have been repeated.
    last_open_request: Option<String>,
    /// Sum that claude writes when it is asked to end. It includes usage that no message reports, such as the summary of a conversation.
    stated: Option<UsageTotals>,
    /// The file has more lines than could be read.
    cut_short: bool,
}

impl Transcript {
    /// Returns a reader that counts the lines from `since` on, or all lines without it.
    #[must_use]
    pub fn new(since: Option<Timestamp>) -> Self {
        Self {
            since,
            prices: Prices::listed(),
            is_of_sub_agent: false,
            answers: Vec::new(),
            open_requests: HashSet::new(),
            last_open_request: None,
            stated: None,
            cut_short: false,
        }
    }

    /// Uses `prices` instead of the list prices.
    #[must_use]
    pub fn priced_by(mut self, prices: Arc<Prices>) -> Self {
        self.prices = prices;
        self
    }

    /// Returns a reader for the transcript of a sub-agent.
    #[must_use]
    pub fn of_sub_agent(since: Option<Timestamp>) -> Self {
        Self {
            is_of_sub_agent: true,
            ..Self::new(since)
        }
    }

    fn add_line(&mut self, line: TranscriptLine<'_>) {
        if let Some(since) = self.since {
            let at = line.timestamp.as_deref().and_then(|at| Timestamp::parse(at).ok());
            if at.is_none_or(|at| at < since) {
                return;
            }
        }
        match line.kind.as_deref() {
            Some("api-request") => {
                self.last_open_request = line.id.into_owned();
                if self.open_requests.len() < MOST_REQUESTS {
                    self.open_requests.extend(self.last_open_request.clone());
                }
            }
            // This line has no time and covers the whole session, so a resumed process cannot use it.
            Some("cost-state") if self.since.is_none() => {
                self.stated = line.model_usage.sum(&self.prices).map(|sum| sum.totals);
            }
            Some("assistant") => {
                if let Some(answer) = line.message.0.and_then(answer) {
                    if let Some(request) = line.request.as_deref()
                        && answer.word == UsageConfidence::Final
                    {
                        self.open_requests.remove(request);
                        self.last_open_request.take_if(|open| open == request);
                    }
                    self.answers.push(answer);
                }
            }
            _ => {}
        }
    }
}

impl SessionLines for Transcript {
    fn line(&mut self, line: &str) {
        if has_word(line, &WORDS)
            && let Ok(Object(Some(line))) = serde_json::from_str(line)
        {
            self.add_line(line);
        }
    }

    fn cut_short(&mut self) {
        self.cut_short = true;
    }

    /// Always true: the file is found by the id of the session.
    fn is_of_session(&self) -> bool {
        true
    }

    /// The usage is a lower bound while a request has no answer.
    fn take(&mut self) -> AgentRecords {
        let answers = std::mem::take(&mut self.answers);
        let (messages, sub_agents) = match self.is_of_sub_agent {
            true => (Vec::new(), answers),
            false => (answers, Vec::new()),
        };
        AgentRecords {
            messages,
            sub_agents,
            total: self.stated.clone(),
            incomplete: self.cut_short || !self.open_requests.is_empty(),
            ends_open: self.cut_short || self.last_open_request.is_some(),
            ..AgentRecords::default()
        }
    }
}

fn answer(message: Message<'_>) -> Option<RecordedMessage> {
    let word = match message.stop_reason.0 {
        Some(_) => UsageConfidence::Final,
        None => UsageConfidence::Begun,
    };
    Some(RecordedMessage {
        id: message.id.into_owned()?,
        model: message.model.into_owned()?,
        billed: message.usage.0?.billed(),
        word,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hankweave_core::cost::{Billed, ProcessUsage, TokenUsage, Usd};

    const LINES: [&str; 4] = [
        r#"{"type":"assistant","timestamp":"2026-01-01T00:00:00.000Z","requestRef":"r-0","message":{"id":"old",
            "model":"claude-sonnet-4-5","stop_reason":"end_turn","usage":{"input_tokens":9000,"output_tokens":9}}}"#,
        r#"{"type":"api-request","timestamp":"2026-01-02T00:00:00.000Z","id":"r-1"}"#,
        r#"{"type":"assistant","timestamp":"2026-01-02T00:00:01.000Z","requestRef":"r-1","message":{"id":"new",
            "model":"claude-sonnet-4-5","stop_reason":"tool_use","usage":{"input_tokens":1000,"output_tokens":4000}}}"#,
        r#"{"type":"api-request","timestamp":"2026-01-02T00:00:02.000Z","id":"r-2"}"#,
    ];

    /// Whether the account stays open.
    fn settle(recorded: AgentRecords, usage: &mut ProcessUsage) -> bool {
        let incomplete = recorded.incomplete;
        recorded.apply_to(usage);
        incomplete
    }

    fn read(lines: &[&str]) -> AgentRecords {
        let since = Timestamp::parse("2026-01-01T12:00:00.000Z").unwrap();
        let mut transcript = Transcript::new(Some(since));
        lines.iter().for_each(|line| transcript.line(line));
        transcript.take()
    }

    // covers: AGENT-8
    #[test]
    fn a_transcript_tells_what_the_stream_left_open() {
        let begun = Billed {
            tokens: TokenUsage {
                input_tokens: 1_000,
                output_tokens: 1,
                ..Default::default()
            },
            ..Billed::default()
        };
        let mut usage = ProcessUsage::default();
        usage.message("new", "claude-sonnet-4-5", begun, UsageConfidence::Rough);
        assert!(usage.totals().lower_bound);
        assert!(!settle(read(&LINES[..3]), &mut usage));
        let totals = usage.totals();
        assert_eq!(
            (totals.cost, totals.lower_bound),
            (Usd::from_micros(63_000), false)
        );
    }

    #[test]
    fn a_request_without_an_answer_is_told() {
        assert!(settle(read(&LINES), &mut ProcessUsage::default()));
    }

    #[test]
    fn the_sum_at_the_end_knows_what_no_message_tells() {
        let stated =
            r#"{"type":"cost-state","modelUsage":{"claude-sonnet-4-5":{"inputTokens":9,"costUSD":0.5}}}"#;
        let mut transcript = Transcript::new(None);
        LINES[1..3]
            .iter()
            .chain([&stated])
            .for_each(|line| transcript.line(line));
        let mut usage = ProcessUsage::default();
        assert!(!settle(transcript.take(), &mut usage));
        assert_eq!(usage.totals().cost, Usd::from_micros(500_000));
        // In a session that continues it holds the earlier processes as well.
        let mut usage = ProcessUsage::default();
        read(&[LINES[1], LINES[2], stated]).apply_to(&mut usage);
        assert_eq!(usage.totals().cost, Usd::from_micros(63_000));
    }

    #[test]
    fn what_is_not_understood_says_nothing() {
        let recorded = read(&["", "[", "{}", r#"{"type":"assistant"}"#, "[1]"]);
        let mut usage = ProcessUsage::default();
        assert!(!settle(recorded, &mut usage));
        assert_eq!(usage.totals().cost, Usd::ZERO);
    }
}
