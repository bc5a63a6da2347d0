//! Decoders of what coding agents print, above [`hankweave_core`].
//!
//! A driver of the runtime starts a program from a [`Launch`] and hands each line that it prints to an [`AgentDecoder`], which turns it into
//! [events](hankweave_core::agent::AgentEvent), usage and an outcome. Decoders are pure. Not here: processes, pipes and files.

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
