//! Requests to other servers: models that sentinels ask (SENT-16), and receivers of notifications (CLI-27).

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use futures_util::future::BoxFuture;

/// Posts over a network. The caller decides what requests contain and what answers mean.
pub trait Http: Send + Sync + fmt::Debug {
    /// Sends one request and waits for its whole answer, with any status. Nothing is retried: that is the decision of the
    /// caller, who pays for requests.
    ///
    /// Dropping the future ends the request.
    fn post(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpAnswer, HttpError>>;
}

/// One POST request.
#[derive(Clone)]
pub struct HttpRequest {
    /// The whole address.
    pub url: String,
    /// Names and values of the headers, such as the one with the API key.
    pub headers: Vec<(Cow<'static, str>, String)>,
    /// JSON.
    pub body: Vec<u8>,
    /// Maximum time from the start of the request to the last byte of the answer.
    pub timeout: Duration,
}

/// Leaves out the headers, which have a key, and the body.
impl fmt::Debug for HttpRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpRequest")
            .field("url", &self.url)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// Response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpAnswer {
    /// The status of HTTP.
    pub status: u16,
    /// The header `retry-after`, if it is text.
    pub retry_after: Option<String>,
    /// The whole body, at most 4 MiB.
    pub body: Vec<u8>,
}

/// Why there is no answer. `hankweave_core::agent::classify` recognises these texts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// No answer within this [timeout](HttpRequest::timeout).
    #[error("the request timed out after {} s", .0.as_secs())]
    Timeout(Duration),
    /// No connection was made, so the server has not received the request.
    #[error("network error: {0}")]
    Unreached(String),
    /// The connection broke, perhaps after the server had received the request.
    #[error("network error: {0}")]
    Network(String),
    /// The answer is longer than 4 MiB.
    #[error("the answer is longer than 4 MiB")]
    TooLong,
    /// This program has no HTTP client.
    #[error("{0}")]
    Unavailable(String),
}

/// Placeholder for programs that ask no models. Embedders that ask models provide a client, such as that of `hankweave-http`.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoHttp;

impl Http for NoHttp {
    fn post(&self, _: HttpRequest) -> BoxFuture<'_, Result<HttpAnswer, HttpError>> {
        let why = "this program was built without a client of HTTP";
        Box::pin(async move { Err(HttpError::Unavailable(why.to_owned())) })
    }
}
