//! Usage that gemini writes to the file of a session.
//!
//! The stream tells the tokens of a run only with its last line, and not at all when the process was killed. The session file tells those of each
//! message. It holds the whole session, so a process that resumed one counts what is younger than itself (AGENT-29).

use super::line::ChatLine;
use crate::agent::lenient::Object;
use crate::agent::records::{AgentRecords, RecordedMessage};
use crate::cost::{Billed, UsageConfidence};
use crate::id::SessionId;
use crate::time::Timestamp;

/// Reads the lines of a session file, which may grow meanwhile.
#[derive(Debug)]
pub struct GeminiChat {
    session: SessionId,
    /// Start of this process; older lines belong to an earlier one.
    since: Option<Timestamp>,
    /// The file names the session. The name of the file has only the beginning of its id.
    is_named: bool,
    messages: Vec<RecordedMessage>,
}

impl GeminiChat {
    /// Reads of this session what is not older than `since`; everything without it.
    #[must_use]
    pub fn new(session: SessionId, since: Option<Timestamp>) -> Self {
        Self {
            session,
            since,
            is_named: false,
            messages: Vec::new(),
        }
    }

    /// Whether the lines read so far are those of the session.
    #[must_use]
    pub fn is_of_session(&self) -> bool {
        self.is_named
    }

    /// Reads one line; one that is not understood says nothing.
    pub fn line(&mut self, line: &str) {
        let Ok(Object(Some(line))) = serde_json::from_str::<Object<ChatLine<'_>>>(line) else {
            return;
        };
        if let Some(named) = line.session_id.as_deref() {
            self.is_named = named == self.session.as_str();
        }
        if self.is_named && line.kind.as_deref() == Some("gemini") {
            self.message(line);
        }
    }

    /// Counts a message. It is written again when its tools have answered.
    fn message(&mut self, line: ChatLine<'_>) {
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

    /// Returns the usage read since the last call.
    pub fn take(&mut self) -> AgentRecords {
        AgentRecords {
            messages: std::mem::take(&mut self.messages),
            ..AgentRecords::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::TokenUsage;

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
