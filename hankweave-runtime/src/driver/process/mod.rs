//! Agents that are processes: the part all of them share.
//!
//! [`ProcessHost::run`] starts the process and one task that owns it. The task copies standard output into the
//! log file, decodes its lines into events, waits for the end of the process or a stop, and cleans up.

mod final_usage;
mod growing;
mod host;
mod lines;
mod log;
mod output;
mod passed;
mod session_files;
mod start;
mod supervise;
mod two_way;

pub(crate) use final_usage::{CutOffAgent, LogContext};
pub use host::{ProcessHost, ProcessLimits};
pub(super) use lines::LineFramer;
pub(super) use output::RecordSource;
pub(super) use session_files::{
    Candidates, FoundSession, SessionFiles, SessionFormat, SubAgentFormat, is_plain,
};
pub(super) use start::ProgramInvocation;
