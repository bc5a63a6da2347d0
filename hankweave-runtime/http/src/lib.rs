//! Posts over HTTP: the client that a program puts into `World::http`, so that sentinels can ask models.
//!
//! It is a crate of its own, so that programs that embed the runtime without such sentinels are built without HTTP and
//! TLS. One request has one deadline, an answer is read up to 4 MiB, and 4 requests are open at a time. No redirect is
//! followed, because its target would receive the API key (SENT-16).
//!
//! ```
//! use std::sync::Arc;
//!
//! use hankweave_http::HttpClient;
//! use hankweave_runtime::world::World;
//!
//! let world = World {
//!     http: Arc::new(HttpClient::new()),
//!     ..World::real()
//! };
//! ```
//!
//! Comments cite the rules of [docs/rules](https://github.com/hankweave/hankweave/tree/main/docs/rules) by ids such as `STATE-12`.

use std::error::Error;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hankweave_runtime::world::http::{Http, HttpAnswer, HttpError, HttpRequest};
use reqwest::redirect::Policy;
use reqwest::{Client, Response};
use tokio::sync::Semaphore;

/// Maximum length of an answer, in bytes.
const MOST_BYTES: usize = 4 << 20;

/// Number of requests that are open at a time. Others wait; their number is limited by the queues of the sentinels.
const MOST_OPEN: usize = 4;

/// Client for the real network.
#[derive(Clone)]
pub struct HttpClient {
    /// Built with the first request, because reading the certificates of the system takes a while.
    client: Arc<Mutex<Option<Client>>>,
    /// One permit for each request that may be open.
    open: Arc<Semaphore>,
}

impl HttpClient {
    /// A client that has not read any certificates yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            client: Arc::default(),
            open: Arc::new(Semaphore::new(MOST_OPEN)),
        }
    }

    fn client(&self) -> Result<Client, HttpError> {
        let mut client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = &*client {
            return Ok(client.clone());
        }
        let built = build_client().map_err(|error| HttpError::Unavailable(error_chain(&error)))?;
        Ok(client.insert(built).clone())
    }

    async fn answer(&self, request: HttpRequest) -> Result<HttpAnswer, HttpError> {
        let _open = self.open.acquire().await;
        let timeout = request.timeout;
        let failed = |error: reqwest::Error| match (error.is_timeout(), error.is_connect()) {
            (true, _) => HttpError::Timeout(timeout),
            (false, true) => HttpError::Unreached(error_chain(&error.without_url())),
            (false, false) => HttpError::Network(error_chain(&error.without_url())),
        };
        let mut post = self
            .client()?
            .post(&request.url)
            .timeout(timeout)
            .body(request.body);
        for (name, value) in request.headers {
            post = post.header(&*name, value);
        }
        let mut response = post.send().await.map_err(failed)?;
        let retry_after = header(&response, "retry-after");
        let status = response.status().as_u16();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            if body.len() + chunk.len() > MOST_BYTES {
                return Err(HttpError::TooLong);
            }
            body.extend_from_slice(&chunk);
        }
        Ok(HttpAnswer {
            status,
            retry_after,
            body,
        })
    }
}

impl Default for HttpClient {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient").finish_non_exhaustive()
    }
}

impl Http for HttpClient {
    fn post(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpAnswer, HttpError>> {
        self.answer(request).boxed()
    }
}

fn build_client() -> Result<Client, reqwest::Error> {
    // Fails if the embedding program has already chosen a provider, which is then used.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
        .redirect(Policy::none())
        .user_agent(concat!("hankweave/", env!("CARGO_PKG_VERSION")))
        .build()
}

fn header(response: &Response, name: &str) -> Option<String> {
    Some(response.headers().get(name)?.to_str().ok()?.to_owned())
}

/// Returns the error and its chain of causes, in one line.
fn error_chain(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        line.push_str(": ");
        line.push_str(&error.to_string());
        source = error.source();
    }
    line
}
