//! The wire dialects. Each writes a reply as one document, as a stream, and an error, in its own words.

mod anthropic;
mod chat;
mod gemini;
mod responses;

use serde_json::{Value, json};

use super::ids::Ids;
use super::reply::Reply;
use super::request::Dialect;
use super::scenario::Failure;

/// One server-sent event.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Frame {
    pub(super) event: Option<&'static str>,
    pub(super) data: String,
}

impl Frame {
    /// Returns an event whose name is also its `type`.
    fn typed(event: &'static str, mut fields: Value) -> Self {
        fields["type"] = json!(event);
        Self {
            event: Some(event),
            data: fields.to_string(),
        }
    }

    fn unnamed(data: impl ToString) -> Self {
        Self {
            event: None,
            data: data.to_string(),
        }
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let event = self
            .event
            .map(|event| format!("event: {event}\n"))
            .unwrap_or_default();
        format!("{event}data: {}\n\n", self.data).into_bytes()
    }
}

impl Dialect {
    pub(super) fn whole(self, reply: &Reply<'_>) -> Value {
        match self {
            Self::Anthropic => anthropic::whole(reply),
            Self::Responses => responses::whole(reply),
            Self::Chat => chat::whole(reply),
            Self::Gemini => gemini::whole(reply),
        }
    }

    pub(super) fn stream(self, reply: &Reply<'_>) -> Vec<Frame> {
        match self {
            Self::Anthropic => anthropic::stream(reply),
            Self::Responses => responses::stream(reply),
            Self::Chat => chat::stream(reply),
            Self::Gemini => gemini::stream(reply),
        }
    }

    /// Returns the number of frames after the one that reports the usage of the whole answer.
    pub(super) fn frames_behind_usage(self) -> usize {
        match self {
            Self::Anthropic | Self::Responses | Self::Chat => 1,
            Self::Gemini => 0,
        }
    }

    pub(super) fn error(self, failure: &Failure, ids: &Ids) -> Value {
        match self {
            Self::Anthropic => json!({
                "type": "error",
                "error": {"type": failure.kind, "message": failure.message},
                "request_id": ids.next("req_"),
            }),
            Self::Responses | Self::Chat => json!({
                "error": {"message": failure.message, "type": failure.kind, "param": null, "code": failure.code},
            }),
            Self::Gemini => gemini::error(failure),
        }
    }

    pub(super) fn error_frame(self, failure: &Failure, ids: &Ids) -> Frame {
        Frame {
            event: Some("error"),
            data: self.error(failure, ids).to_string(),
        }
    }
}
