//! A model server that plays a script to any agent that talks to it.
//!
//! A [`Scenario`] defines what the model answers and how the line misbehaves; [`ModelServer`] plays it on a free port of
//! 127.0.0.1 until it is dropped. The dialect is chosen by the request path: `/v1/messages` (Anthropic), `/responses` and
//! `/chat/completions` (OpenAI), `:generateContent` and `:streamGenerateContent` (Gemini). Everything that decides is a
//! plain function from the request and the script to a list of steps; only `server` and `http` wait for anything. The
//! scenario format is described in `docs/testing.md`.
//!
//! ```
//! use hankweave_testing::{ModelServer, Scenario};
//!
//! let scenario: Scenario = r#"{"turns": [{"text": "The answer is 42."}]}"#.parse()?;
//! let server = ModelServer::start(scenario)?;
//! assert!(server.url().starts_with("http://127.0.0.1:"));
//! assert!(server.requests().is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod dialect;
mod http;
mod ids;
mod log;
mod reply;
mod request;
mod scenario;
mod script;
mod server;
mod steps;
mod tools;

pub use log::{Asked, AskedKind, Served};
pub use scenario::{ParseScenarioError, Scenario};
pub use server::{ModelServer, Options, StartError};
