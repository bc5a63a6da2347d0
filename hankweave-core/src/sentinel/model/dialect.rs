//! Requests and answers in the three protocols in which models are asked (SENT-16). Each submodule has a `body`, the JSON of a request, and a `reply`,
//! which reads the JSON of a response.

mod anthropic;
mod chat;
mod responses;

use std::time::Duration;

use serde_json::{Value, json};

use super::{AnswerSchema, Api, Question};
use crate::agent::classify::{Classification, classify};
use crate::cost::{TokenUsage, Usd};

/// Maximum length of a provider's error in a message, in characters.
const MOST_OF_AN_ERROR: usize = 500;

/// Response of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelReply {
    /// Content of the response.
    pub said: ReplyBody,
    /// Billed tokens; all 0 if the provider does not report them.
    pub tokens: TokenUsage,
    /// Billed amount, if the provider reports it.
    pub cost: Option<Usd>,
}

/// Content of a model's response.
#[derive(Debug, Clone, PartialEq)]
pub enum ReplyBody {
    /// A text.
    Text(String),
    /// The object that the question asks for.
    Object(Value),
    /// A refusal to answer, in the words of the model or provider.
    Refused(String),
}

/// Reason why a request got no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CallRefusal {
    /// Message for people; may quote the provider.
    pub message: String,
    /// Whether the request may succeed when it is sent once more.
    pub retriable: bool,
    /// How long the provider asks to wait first.
    pub retry_after: Option<Duration>,
    /// Whether every other question will be refused as well, as with a key that is not valid.
    pub fatal: bool,
    /// Whether the request may be billed although its answer cannot be used.
    pub billable: bool,
}

/// Returns the body of a request, as JSON.
#[must_use]
pub fn request_body(api: Api, question: &Question) -> Value {
    let mut body = match api {
        Api::Anthropic => anthropic::body(question),
        Api::OpenaiChat => chat::body(question),
        Api::OpenaiResponses => responses::body(question),
    };
    body["model"] = question.model.as_str().into();
    if let Some(temperature) = question.temperature {
        body["temperature"] = temperature.into();
    }
    body
}

/// Reads a provider's response: its status, its header `retry-after` and its body.
///
/// # Errors
///
/// The reason why this is no answer of a model.
pub fn read_reply(
    api: Api,
    status: u16,
    retry_after: Option<&str>,
    body: &[u8],
) -> Result<ModelReply, CallRefusal> {
    let read: Option<Value> = serde_json::from_slice(body).ok();
    if !(200..300).contains(&status) {
        return Err(refusal(status, retry_after, read.as_ref(), body));
    }
    let no_answer = || CallRefusal {
        message: format!(
            "what came is no answer of a model: {}",
            shortened(&String::from_utf8_lossy(body))
        ),
        retriable: true,
        retry_after: None,
        fatal: false,
        billable: true,
    };
    let read = read.ok_or_else(no_answer)?;
    let reply = match api {
        Api::Anthropic => anthropic::reply(&read),
        Api::OpenaiChat => chat::reply(&read),
        Api::OpenaiResponses => responses::reply(&read),
    };
    reply.ok_or_else(no_answer)
}

/// Returns the refusal for a response with an error status. The provider's words decide whether to retry, as they do for agents (AGENT-9).
fn refusal(status: u16, retry_after: Option<&str>, read: Option<&Value>, body: &[u8]) -> CallRefusal {
    let words = read.and_then(|read| {
        let error = read.get("error")?;
        error.get("message").unwrap_or(error).as_str()
    });
    let words = words.map_or_else(|| String::from_utf8_lossy(body).into_owned(), str::to_owned);
    let hint = retry_after.map_or_else(String::new, |hint| format!(" retry-after: {hint}"));
    // An error of the server (5xx) may be retried even if its words are unknown.
    let Classification {
        retriable,
        retry_after,
        ..
    } = classify(&format!("{status} {words}{hint}"), status >= 500);
    CallRefusal {
        message: match shortened(&words).as_str() {
            "" => format!("HTTP {status}"),
            words => format!("HTTP {status}: {words}"),
        },
        retriable,
        retry_after,
        // A wrong key, no money, no permission, an unknown model or address: every question would be refused.
        fatal: matches!(status, 401..=404),
        billable: false,
    }
}

fn shortened(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(MOST_OF_AN_ERROR) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Returns the earlier exchanges and the question, as messages of two roles.
fn messages(question: &Question) -> Vec<Value> {
    let before = question.before.iter().flat_map(|exchange| {
        [
            json!({"role": "user", "content": exchange.question}),
            json!({"role": "assistant", "content": exchange.answer}),
        ]
    });
    before
        .chain([json!({"role": "user", "content": question.prompt})])
        .collect()
}

/// Returns the number at a path; 0 if there is none.
fn count(value: &Value, path: &[&str]) -> u64 {
    path.iter()
        .fold(value, |value, name| &value[*name])
        .as_u64()
        .unwrap_or(0)
}

/// Returns the system prompt, which also describes the form of the answer: not every server supports the field of the request for that.
fn system_with_form(question: &Question) -> Option<String> {
    let form = question.form.as_ref().map(|form: &AnswerSchema| {
        format!(
            "Answer with one JSON object that satisfies this JSON Schema, and nothing else: {}",
            form.schema()
        )
    });
    match (question.system.clone(), form) {
        (Some(system), Some(form)) => Some(format!("{system}\n\n{form}")),
        (system, form) => system.or(form),
    }
}

#[cfg(test)]
mod tests;
