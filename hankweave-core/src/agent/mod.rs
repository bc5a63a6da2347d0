//! Agents as data: how one is launched, what it tells, how it ends.
//!
//! A driver of the runtime starts a program and translates what it prints into [`AgentEvent`]s; everything that such a
//! translation has to decide is here and pure. Not here: processes, pipes and files.

pub mod classify;
pub mod claude;
mod event;
mod failure;
mod json;
mod launch;
mod lines;
mod outcome;
mod resets;
mod transcript;

pub use claude::ClaudeDecoder;
pub use event::{AgentEvent, AgentResult, MessageUsage, PermissionDenial, ToolResult};
pub use failure::{FailureKind, FailureReason, InterruptedBy};
pub use launch::Launch;
pub use lines::AgentLines;
pub use outcome::{EndedBy, ExitOutcome, ProcessExit, Verdict};
pub use resets::{ZoneData, limit_ends_at};
pub use transcript::Transcript;
