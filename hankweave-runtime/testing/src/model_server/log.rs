//! Requests to the server, as tests read them and as the program writes them down.

use serde::Serialize;
use serde_json::Value;

use super::request::Dialect;

/// One request, in order of arrival.
#[derive(Debug, Clone, Serialize)]
pub struct Asked {
    /// Milliseconds since the server was started.
    pub at_ms: u64,
    /// HTTP method.
    pub method: String,
    /// Path without the query.
    pub path: String,
    /// Kind of the request.
    #[serde(flatten)]
    pub kind: AskedKind,
}

/// Kind of a request.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum AskedKind {
    /// A model call, the only kind that takes a turn.
    Model {
        /// The interface that was spoken.
        dialect: Dialect,
        /// Lane that answered; `aux` for side requests, `unmatched` when no lane did.
        lane: String,
        /// Position of the answer in its lane, from 0.
        turn: u64,
        /// Model that was asked for.
        model: String,
        /// Whether a stream was asked for.
        stream: bool,
        /// Number of messages in the request.
        messages: usize,
        /// Names of the tools that the agent offers, in its order.
        tools: Vec<String>,
        /// HTTP status of the answer; `None` when the connection was cut before any.
        status: Option<u16>,
        /// The request itself. The program writes it down only when asked to.
        #[serde(skip_serializing_if = "Value::is_null")]
        body: Value,
    },
    /// A question for the size of a prompt.
    CountTokens,
    /// A new script.
    Scenario,
    /// Health, state and model list.
    Probe,
    /// A path that is not served here.
    Unknown,
}

/// Usage of one answer, for the part that was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Served {
    /// Lane that answered.
    pub lane: String,
    /// Tokens of the prompt that no cache held.
    pub input: u64,
    /// Tokens of the whole answer.
    pub output: u64,
    /// Tokens written to a cache.
    pub cache_creation: u64,
    /// How many of those stay there for an hour.
    pub cache_creation_1h: u64,
    /// Tokens read from a cache.
    pub cache_read: u64,
    /// Searches of the web.
    pub web_searches: u64,
    /// Whether any of it was sent.
    pub begun: bool,
    /// Whether everything that reports usage was sent; an answer that was cut off is not whole.
    pub whole: bool,
}

impl Asked {
    /// Says whether this was a model call.
    #[must_use]
    pub fn is_model_call(&self) -> bool {
        matches!(self.kind, AskedKind::Model { .. })
    }

    /// Returns the body of a model call, if it was kept.
    #[must_use]
    pub fn body(&self) -> Option<&Value> {
        match &self.kind {
            AskedKind::Model { body, .. } => Some(body).filter(|body| !body.is_null()),
            AskedKind::CountTokens | AskedKind::Scenario | AskedKind::Probe | AskedKind::Unknown => None,
        }
    }

    /// Returns the lane that answered a model call.
    #[must_use]
    pub fn lane(&self) -> Option<&str> {
        match &self.kind {
            AskedKind::Model { lane, .. } => Some(lane),
            AskedKind::CountTokens | AskedKind::Scenario | AskedKind::Probe | AskedKind::Unknown => None,
        }
    }
}
