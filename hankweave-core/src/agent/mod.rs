//! Agents as data: the events that an agent reports, its abilities and options, its outcome, and the meaning of its failures.
//!
//! A driver of the runtime starts a program and translates its output into [`AgentEvent`]s, with a decoder of the crate `hankweave-agents`.
//! Not here: decoders, processes, pipes and files.

mod answer;
mod capabilities;
pub mod classify;
mod error_class;
mod event;
mod example;
mod failure;
mod options;
mod outcome;
mod permissions;
mod resets;
mod result;

pub use answer::object_in;
pub use capabilities::{Capabilities, CostReporting, ResultSupport};
pub use error_class::{CLASSES, ErrorClass, WAIT_HINTS, WaitHint};
pub use event::{AgentEvent, AgentResult, BackgroundWork, MessageUsage, PermissionDenial, ToolResult};
pub(crate) use failure::{CRASHED, CRASHED_IN_WORDS};
pub use failure::{FailureKind, FailureReason, FallbackCause, InterruptedBy};
pub use options::{Access, AccessMode, AgentOptions, McpServer, OptionRefusal, OptionSupport};
pub use outcome::{EndedBy, ExitOutcome, ProcessExit, Verdict};
pub use permissions::{Permission, Permissions};
pub use resets::{ZoneData, limit_ends_at, moment};
pub use result::AskedResult;
