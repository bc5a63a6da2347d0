//! Message to a client.

use hankweave_core::wire::{Direct, JournalEntry};
use serde_json::Value;

/// A message from the server.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ServerMessage {
    /// An event of the journal.
    Event(Box<JournalEntry>),
    /// A message for this client alone that answers no command: the identity of the server, what the server waits for, or
    /// a `ping.broadcast` of another client. It is left out if there is no room for more messages.
    Direct(Box<Direct>),
    /// Something that this version does not know.
    Unknown {
        /// Its place in history, if it is an event of the journal.
        seq: Option<u64>,
        /// Its type.
        kind: String,
        /// The whole message.
        value: Value,
    },
}

impl ServerMessage {
    /// Reads one message; `None` when it is no JSON object with a type.
    pub(super) fn read(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        let kind = value.get("type")?.as_str()?.to_owned();
        let seq = value.get("seq").and_then(Value::as_u64);
        let known = match seq {
            Some(_) => serde_json::from_value(value.clone()).map(|entry| Self::Event(Box::new(entry))),
            None => serde_json::from_value(value.clone()).map(|direct| Self::Direct(Box::new(direct))),
        };
        Some(known.unwrap_or(Self::Unknown { seq, kind, value }))
    }

    /// Its place in history, if it is an event of the journal.
    #[must_use]
    pub fn seq(&self) -> Option<u64> {
        match self {
            Self::Event(entry) => Some(entry.seq),
            Self::Direct(_) => None,
            Self::Unknown { seq, .. } => *seq,
        }
    }
}

#[cfg(test)]
mod tests {
    use hankweave_core::wire::{DirectPayload, Event};

    use super::*;

    #[test]
    fn events_answers_and_what_is_not_known_yet_are_told_apart() {
        let envelope = r#""id": "e", "timestamp": "2025-01-04T12:00:00.000Z""#;
        let read = |text: String| ServerMessage::read(&text).unwrap();
        let event = read(format!(
            r#"{{"seq": 7, {envelope}, "type": "info", "data": {{"message": "x"}}}}"#
        ));
        assert_eq!(event.seq(), Some(7));
        assert!(matches!(event, ServerMessage::Event(entry) if matches!(entry.event, Event::Info { .. })));
        let pong = read(format!(
            r#"{{{envelope}, "commandId": "c", "type": "pong", "data": {{"message": "pong", "timestamp": "2025-01-04T12:00:00.000Z"}}}}"#
        ));
        assert!(
            matches!(pong, ServerMessage::Direct(direct) if matches!(direct.answer, DirectPayload::Pong { .. }) && direct.command_id.is_some())
        );
        let later = read(format!(
            r#"{{"seq": 9, {envelope}, "type": "moon.rises", "data": 1}}"#
        ));
        assert_eq!(later.seq(), Some(9));
        assert!(matches!(later, ServerMessage::Unknown { kind, .. } if kind == "moon.rises"));
        for text in ["", "[]", "{}", r#"{"type": 1}"#] {
            assert_eq!(ServerMessage::read(text), None, "{text}");
        }
    }
}
