//! Agents that are processes: the part all of them share.
//!
//! [`ProcessHost::run`] starts the process and one task that owns it. The task reads standard output into lines, copies it
//! raw into the log file, watches for the end and for a stop, and cleans up.

mod host;
mod lines;
mod log;
mod supervise;

pub(super) use host::Invocation;
pub use host::{ProcessHost, ProcessLimits};
