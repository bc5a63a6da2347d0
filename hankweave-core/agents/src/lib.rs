//! Decoders of what coding agents print.
//!
//! A driver of the runtime starts a program from a [`Launch`] and hands each line that it prints to an [`AgentDecoder`], which turns it into
//! [events](hankweave_core::agent::AgentEvent), usage and an outcome. Decoders are pure. Not here: processes, pipes and files.
//!
//! ```
//! use hankweave_agents::{AgentDecoder, AgentLine, ClaudeDecoder};
//! use hankweave_core::agent::AgentEvent;
//!
//! let output = r#"{"type":"system","subtype":"init","session_id":"s-1","model":"claude-sonnet-4-5","cwd":"/","tools":[]}"#;
//! let mut decoder = ClaudeDecoder::new(false);
//! let mut events = Vec::new();
//! for line in output.lines() {
//!     decoder.decode(AgentLine::Text(line), &mut events);
//! }
//! assert!(matches!(events[0], AgentEvent::SessionStarted { .. }));
//! ```
//!
//! Comments cite the rules of [docs/rules](https://github.com/hankweave/hankweave/tree/main/docs/rules) by ids such as `STATE-12`.

pub mod acp;
mod actions;
pub mod claude;
pub mod codex;
mod decoder;
pub mod gemini;
mod launch;
mod lenient;
mod open_tools;
pub mod opencode;
pub mod pi;
mod records;
mod speech;

pub use acp::{AcpAction, AcpDecoder};
pub use claude::{ClaudeDecoder, Transcript};
pub use codex::{CodexDecoder, Rollout};
pub use decoder::{AgentDecoder, AgentLine, ProcessEnd};
pub use gemini::{GeminiChat, GeminiDecoder};
pub use launch::Launch;
pub use opencode::OpencodeDecoder;
pub use pi::PiDecoder;
pub use records::{AgentRecords, RecordedMessage, RecordsScope, SessionLines};
