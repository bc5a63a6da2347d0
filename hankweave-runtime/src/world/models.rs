//! Where models are asked (SENT-16).

use std::fmt;
use std::time::Duration;

use futures_util::future::BoxFuture;

/// Asks models over a network. What a request says and what its answer means is decided elsewhere (`hankweave_core::sentinel::model`).
pub trait Models: Send + Sync + fmt::Debug {
    /// Sends one request and waits for its whole answer, with any status. Nothing is tried twice: whoever pays decides that.
    ///
    /// Dropping the future ends the request.
    fn ask(&self, request: ModelRequest) -> BoxFuture<'_, Result<ModelAnswer, ModelError>>;
}

/// One request.
#[derive(Clone)]
pub struct ModelRequest {
    /// The whole address.
    pub url: String,
    /// Headers; that with the key among them.
    pub headers: Vec<(&'static str, String)>,
    /// JSON.
    pub body: Vec<u8>,
    /// How long it may take from its beginning to the last byte of the answer.
    pub timeout: Duration,
}

/// Without the key and what is asked.
impl fmt::Debug for ModelRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelRequest")
            .field("url", &self.url)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelAnswer {
    /// The status of HTTP.
    pub status: u16,
    /// The header `retry-after`, if it is text.
    pub retry_after: Option<String>,
    /// All of it, 4 MiB at most.
    pub body: Vec<u8>,
}

/// Why nothing came back. The texts are such that `hankweave_core::agent::classify` knows them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// Within the time of the request.
    #[error("the request timed out after {} s", .0.as_secs())]
    Timeout(Duration),
    /// The provider was not reached, or the connection broke.
    #[error("network error: {0}")]
    Network(String),
    /// The answer is longer than 4 MiB.
    #[error("the answer is longer than 4 MiB")]
    TooLong,
    /// This program cannot ask models.
    #[error("{0}")]
    Unavailable(String),
}

/// For programs that ask no models: embedders that do bring an implementation, such as that of `hankweave-models`.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoModels;

impl Models for NoModels {
    fn ask(&self, _: ModelRequest) -> BoxFuture<'_, Result<ModelAnswer, ModelError>> {
        let why = "this program was built without what asks models";
        Box::pin(async move { Err(ModelError::Unavailable(why.to_owned())) })
    }
}
