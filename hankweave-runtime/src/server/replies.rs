//! Messages that the server itself sends to one client, such as answers and errors. A message with events of the journal contains their lines unchanged.

use std::sync::Arc;

use hankweave_core::wire::{Code, Direct, DirectPayload, Mode, Refused};
use serde::Serialize;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::world::World;
use crate::world::clock::Clock;
use crate::world::ids::IdSource;

/// Writes replies, each with an id and a time.
#[derive(Debug, Clone)]
pub(super) struct Replies {
    ids: Arc<dyn IdSource>,
    clock: Arc<dyn Clock>,
}

/// The text after the events of a `history.batch`, before the value of `hasMore`.
pub(super) const BATCH_END: &str = "],\"hasMore\":";

/// The answer to a handshake.
#[derive(Debug)]
pub(super) struct SessionStart<'a> {
    pub(super) client_id: &'a str,
    pub(super) mode: Mode,
    /// The newest events, as they are in the journal.
    pub(super) history: &'a [String],
    pub(super) total_events: u64,
    pub(super) last_seq: u64,
}

impl Replies {
    pub(super) fn new(world: &World) -> Self {
        Self {
            ids: Arc::clone(&world.ids),
            clock: Arc::clone(&world.clock),
        }
    }

    /// Returns the message with this answer; `command_id` is the id of the command that it answers.
    pub(super) fn answer(&self, command_id: Option<&str>, answer: DirectPayload) -> Utf8Bytes {
        let direct = Direct {
            id: self.ids.event_id(),
            timestamp: self.clock.now(),
            command_id: command_id.map(str::to_owned),
            answer,
        };
        json(&direct).into()
    }

    /// The error after which nothing is recorded any more (P5).
    pub(super) fn fatal(&self, message: String) -> Utf8Bytes {
        let error = DirectPayload::Error {
            message,
            fatal: true,
            severity: "fatal".to_owned(),
            context: "recording what happens".to_owned(),
            code: "STATE_NOT_SAVED".to_owned(),
            hint: Some("make room on the disk, and the next run in the same directory continues".to_owned()),
            command_id: None,
        };
        self.answer(None, error)
    }

    /// Returns a `pong`; `client_id` names the client whose broadcast it is, and is `None` in the answer to a `ping`.
    pub(super) fn pong(&self, command_id: Option<&str>, client_id: Option<String>) -> Utf8Bytes {
        let pong = DirectPayload::Pong {
            message: "pong".to_owned(),
            timestamp: self.clock.now(),
            client_id,
        };
        self.answer(command_id, pong)
    }

    /// Returns the error that explains why a message is not carried out.
    pub(super) fn refusal(&self, attempted: &ParsedRequest<'_>, refused: Refused) -> Utf8Bytes {
        let hint = hint(refused.code).map(str::to_owned);
        self.error(attempted, refused.message, refused.code.name(), hint)
    }

    pub(super) fn error(
        &self,
        attempted: &ParsedRequest<'_>,
        message: String,
        code: &str,
        hint: Option<String>,
    ) -> Utf8Bytes {
        let what = attempted.command.unwrap_or("a message");
        let error = DirectPayload::Error {
            message,
            fatal: false,
            severity: "operation".to_owned(),
            context: format!("Attempted command: {what}"),
            code: code.to_owned(),
            hint,
            command_id: attempted.id.map(str::to_owned),
        };
        self.answer(attempted.id, error)
    }

    /// Returns the text of a `history.batch` before its events; [`BATCH_END`] follows them.
    pub(super) fn batch_begin(&self, command_id: &str) -> String {
        format!(
            r#"{{"id":{},"timestamp":{},"commandId":{},"type":"history.batch","data":{{"events":["#,
            json(&self.ids.event_id()),
            json(&self.clock.now()),
            json(command_id),
        )
    }
}

impl SessionStart<'_> {
    /// Returns the answer as a message.
    pub(super) fn message(&self) -> Utf8Bytes {
        let message = format!(
            r#"{{"type":"handshake.response","data":{{"clientId":{},"mode":{},"eventHistory":[{}],"totalEvents":{},"lastSeq":{}}}}}"#,
            json(self.client_id),
            json(&self.mode),
            self.history.join(","),
            self.total_events,
            self.last_seq,
        );
        message.into()
    }
}

/// Parts of a client's message that could be read, for an error about it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ParsedRequest<'a> {
    pub(super) id: Option<&'a str>,
    pub(super) command: Option<&'a str>,
}

/// Returns the remedy for a refusal, where there is one.
const fn hint(code: Code) -> Option<&'static str> {
    match code {
        Code::HandshakeRequired => Some(r#"send {"type": "handshake", "data": {"mode": "readonly"}} first"#),
        Code::InsufficientPermissions => {
            Some("connect with the token for everything and the mode readandwrite")
        }
        Code::UnknownSeq => {
            Some("this is the history of another execution directory; connect without afterSeq")
        }
        Code::Busy => Some("wait for the answers to earlier commands"),
        Code::Stopping => Some("the next run in the same directory continues"),
        _ => None,
    }
}

fn json(value: &(impl Serialize + ?Sized)) -> String {
    serde_json::to_string(value).expect("an answer has text keys, and memory takes everything")
}

#[cfg(test)]
mod tests {
    use hankweave_core::id::EventId;
    use hankweave_core::time::Timestamp;
    use hankweave_core::wire::{ClientSession, Event, JournalEntry, Response};

    use super::*;

    fn entry(seq: u64) -> JournalEntry {
        JournalEntry {
            seq,
            id: EventId::new("e").unwrap(),
            timestamp: Timestamp::UNIX_EPOCH,
            event: Event::Info {
                message: "a \"word\"".to_owned(),
            },
        }
    }

    #[test]
    fn parts_that_pass_through_unread_are_what_the_types_would_write() {
        let replies = Replies::new(&World::with_environment([("", ""); 0].into_iter().collect()));
        let events = vec![entry(1), entry(2)];
        let history: Vec<String> = events.iter().map(json).collect();
        let text = format!(
            "{}{}{BATCH_END}true}}}}",
            replies.batch_begin("c \"1\""),
            history.join(",")
        );
        let direct: Direct = serde_json::from_str(&text).unwrap();
        assert_eq!(json(&direct), text);
        assert_eq!(direct.command_id.as_deref(), Some("c \"1\""));
        let batch = DirectPayload::HistoryBatch {
            events: events.clone(),
            has_more: true,
        };
        assert_eq!(direct.answer, batch);
        let start = SessionStart {
            client_id: "client-1",
            mode: Mode::Readonly,
            history: &history,
            total_events: 2,
            last_seq: 2,
        };
        let session = ClientSession {
            client_id: "client-1".to_owned(),
            mode: Mode::Readonly,
            event_history: events,
            total_events: 2,
            last_seq: 2,
        };
        assert_eq!(start.message().as_str(), json(&Response::Handshake(session)));
    }
}
