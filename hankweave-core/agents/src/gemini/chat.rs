//! Usage that gemini writes to the file of a session.
//!
//! The stream reports tokens only with its last line, and not at all when the process was killed. The session file has the tokens of
//! each message, and files next to it those of its sub-agents. It holds the whole session, so a process that resumed one counts only the lines that
//! are younger than itself (AGENT-29).

use super::line::ChatLine;
use crate::lenient::Object;
use crate::records::{AgentRecords, RecordedMessage, SessionLines, has_word};
use hankweave_core::cost::{Billed, UsageConfidence};
use hankweave_core::id::SessionId;
use hankweave_core::time::Timestamp;

/// Words of the lines that report the tokens of a message, and of those that name the session.
const WORDS: [&str; 2] = ["\"sessionId\"", "\"tokens\""];

/// Reads the lines of a session file, or of the file of a sub-agent.
#[derive(Debug)]
pub struct GeminiChat {
    /// The wanted session; `None` for a sub-agent, whose file lies in a folder of the session and names a session of its own.
    session: Option<SessionId>,
    /// Start of this process; older lines belong to an earlier one. `None` counts all lines.
    since: Option<Timestamp>,
    /// A line has shown that the file belongs to the session. The file's name cannot: it has only the beginning of the session's id.
    is_of_session: bool,
    messages: Vec<RecordedMessage>,
    cut_short: bool,
}

impl GeminiChat {
    /// Returns a reader for the file of `session` that counts the lines from `since` on, or all lines without it.
    #[must_use]
    pub fn new(session: SessionId, since: Option<Timestamp>) -> Self {
        Self {
            session: Some(session),
            since,
            is_of_session: false,
            messages: Vec::new(),
            cut_short: false,
        }
    }

    /// Returns a reader for the file of a sub-agent, which lies in the folder of its session.
    #[must_use]
    pub fn of_sub_agent(since: Option<Timestamp>) -> Self {
        Self {
            session: None,
            since,
            is_of_session: true,
            messages: Vec::new(),
            cut_short: false,
        }
    }

    /// Adds a message. The file repeats a message when its tools have answered.
    fn add_message(&mut self, line: ChatLine<'_>) {
        let at = line.timestamp.as_deref().and_then(|at| Timestamp::parse(at).ok());
        let is_earlier = self.since.is_some_and(|since| at.is_none_or(|at| at < since));
        let (Some(id), Some(tokens), false) = (line.id.into_owned(), line.tokens.0, is_earlier) else {
            return;
        };
        self.messages.push(RecordedMessage {
            id,
            model: line.model.into_owned().unwrap_or_default(),
            billed: Billed::from(tokens.tokens()),
            word: UsageConfidence::Final,
        });
    }
}

impl SessionLines for GeminiChat {
    fn line(&mut self, line: &str) {
        if !has_word(line, &WORDS) {
            return;
        }
        let Ok(Object(Some(line))) = serde_json::from_str::<Object<ChatLine<'_>>>(line) else {
            return;
        };
        if let (Some(session), Some(named)) = (&self.session, line.session_id.as_deref()) {
            self.is_of_session = named == session.as_str();
        }
        if self.is_of_session && line.kind.as_deref() == Some("gemini") {
            self.add_message(line);
        }
    }

    fn cut_short(&mut self) {
        self.cut_short = true;
    }

    fn is_of_session(&self) -> bool {
        self.is_of_session
    }

    fn take(&mut self) -> AgentRecords {
        let messages = std::mem::take(&mut self.messages);
        let (messages, sub_agents) = match self.session {
            Some(_) => (messages, Vec::new()),
            None => (Vec::new(), messages),
        };
        AgentRecords {
            messages,
            sub_agents,
            incomplete: self.cut_short,
            ends_open: self.cut_short,
            ..AgentRecords::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hankweave_core::cost::TokenUsage;

    const NAMED: &str =
        r#"{"sessionId":"d4cbea22-3439","startTime":"2026-11-26T15:58:05.716Z","kind":"main"}"#;
    const FIRST: &str = r#"{"id":"m-1","timestamp":"2026-11-26T15:58:05.856Z","type":"gemini","content":"I write.","thoughts":[],"tokens":{"input":1000,"output":50,"cached":100,"thoughts":7,"tool":0,"total":1057},"model":"gemini-2.5-pro"}"#;
    const SECOND: &str = r#"{"id":"m-2","timestamp":"2026-11-26T15:58:06.100Z","type":"gemini","content":"Done.","tokens":{"input":2000,"output":50,"cached":100,"thoughts":7,"tool":0,"total":2057},"model":"gemini-2.5-pro"}"#;
    const REST: [&str; 4] = [
        r#"{"$set":{"lastUpdated":"2026-11-26T15:58:05.856Z"}}"#,
        r#"{"id":"m-0","timestamp":"2026-11-26T15:58:05.856Z","type":"gemini","content":""}"#,
        r#"{"id":"u-1","timestamp":"2026-11-26T15:58:05.730Z","type":"user","content":[{"text":"TASK"}]}"#,
        "{",
    ];

    fn used(session: &str, since: Option<&str>, lines: &[&str]) -> Vec<(String, u64, u64, u64)> {
        let since = since.map(|at| Timestamp::parse(at).unwrap());
        let mut chat = GeminiChat::new(SessionId::new(session).unwrap(), since);
        for line in lines {
            chat.line(line);
        }
        let messages = chat.take().messages.into_iter();
        messages
            .map(|message| {
                let tokens = message.billed.tokens;
                let TokenUsage {
                    input_tokens,
                    output_tokens,
                    cache_read_tokens,
                    ..
                } = tokens;
                (message.id, input_tokens, output_tokens, cache_read_tokens)
            })
            .collect()
    }

    // covers: AGENT-29, AGENT-47
    #[test]
    fn each_message_of_a_gemini_session_has_its_tokens_with_thoughts_and_without_the_cache() {
        let lines: Vec<_> = [NAMED, FIRST].into_iter().chain(REST).chain([SECOND]).collect();
        let wanted = [
            ("m-1".to_owned(), 900, 57, 100),
            ("m-2".to_owned(), 1_900, 57, 100),
        ];
        assert_eq!(used("d4cbea22-3439", None, &lines), wanted);
        assert_eq!(used("d4cbea22-9999", None, &lines), [], "another session");
        assert_eq!(
            used("d4cbea22-3439", None, &lines[1..]),
            [],
            "a file without a name"
        );
    }

    // covers: AGENT-29
    #[test]
    fn messages_of_an_earlier_process_of_gemini_do_not_count() {
        let since = Some("2026-11-26T15:58:06.000Z");
        let used = used("d4cbea22-3439", since, &[NAMED, FIRST, NAMED, SECOND]);
        assert_eq!(used, [("m-2".to_owned(), 1_900, 57, 100)]);
    }
}
