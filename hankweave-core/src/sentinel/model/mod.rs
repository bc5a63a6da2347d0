//! Asking a model, without a network: the endpoint, the content of the request and the meaning of the answer (SENT-15 to SENT-18). The runtime sends the
//! request.

mod conversation;
mod dialect;
mod endpoint;
mod form;
#[cfg(feature = "hanks")]
mod unready;

pub use conversation::Conversation;
pub use dialect::{CallRefusal, ModelReply, ReplyBody, read_reply, request_body};
pub use endpoint::{Api, EndpointError, ModelEndpoint, providers};
pub use form::AnswerSchema;
#[cfg(feature = "hanks")]
pub use unready::{unloaded, unready_sentinels};

/// One question and its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    /// Question to the model.
    pub question: String,
    /// Answer of the model.
    pub answer: String,
}

/// Content of one request to a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// The model, as its provider calls it.
    pub model: String,
    /// The system prompt.
    pub system: Option<String>,
    /// Earlier exchanges, oldest first.
    pub before: Vec<Exchange>,
    /// Current question.
    pub prompt: String,
    /// Temperature, as the provider understands it; `None` leaves it to the provider.
    pub temperature: Option<f64>,
    /// Maximum length of the answer, in tokens.
    pub max_output_tokens: u64,
    /// The form that the answer must have.
    pub form: Option<AnswerSchema>,
}

impl Question {
    /// Returns the question that asks again, because `answer` did not have the requested form: `why` names the problem.
    #[must_use]
    pub fn repaired(mut self, answer: String, why: &str) -> Self {
        let again = format!(
            "Your answer cannot be used: {why}. Answer once more, with one JSON value that satisfies the schema and nothing else."
        );
        let question = std::mem::replace(&mut self.prompt, again);
        self.before.push(Exchange { question, answer });
        self
    }
}
