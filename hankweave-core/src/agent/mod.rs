//! Agents as data: how one is launched, what it tells, how it ends.
//!
//! A driver of the runtime starts a program and translates what it prints into [`AgentEvent`]s; everything that such a
//! translation has to decide is here and pure. Not here: processes, pipes and files.

pub mod acp;
mod answer;
mod capabilities;
pub mod classify;
pub mod claude;
pub mod codex;
mod decoder;
mod error_class;
mod event;
mod example;
mod failure;
pub mod gemini;
mod launch;
mod lenient;
mod open_tools;
pub mod opencode;
mod options;
mod outcome;
pub mod pi;
mod records;
mod resets;
mod result;
mod speech;

pub use acp::{AcpAction, AcpDecoder, Permission, Permissions};
pub use answer::object_in;
pub use capabilities::{Capabilities, CostReporting, ResultSupport};
pub use claude::{ClaudeDecoder, Transcript};
pub use codex::{CodexDecoder, Rollout};
pub use decoder::{AgentDecoder, AgentLine, ProcessEnd};
pub use error_class::{CLASSES, ErrorClass, WAIT_HINTS, WaitHint};
pub use event::{AgentEvent, AgentResult, BackgroundWork, MessageUsage, PermissionDenial, ToolResult};
pub(crate) use failure::{CRASHED, CRASHED_IN_WORDS};
pub use failure::{FailureKind, FailureReason, FallbackCause, InterruptedBy};
pub use gemini::{GeminiChat, GeminiDecoder};
pub use launch::Launch;
pub use opencode::OpencodeDecoder;
pub use options::{Access, AccessMode, AgentOptions, McpServer, OptionRefusal, OptionSupport};
pub use outcome::{EndedBy, ExitOutcome, ProcessExit, Verdict};
pub use pi::PiDecoder;
pub use records::{AgentRecords, RecordedMessage, RecordsScope, SessionLines};
pub use resets::{ZoneData, limit_ends_at};
pub use result::AskedResult;
