//! Agents that are processes: the part all of them share.
//!
//! [`ProcessHost::run`] starts the process and one task that owns it. The task copies standard output raw into
//! the log file and reads its lines, watches for the end and for a stop, and cleans up. What the lines mean is found out where the events are
//! received.

mod host;
mod lines;
mod log;
mod passed;
mod reader;
mod reckon;
mod supervise;
mod transcripts;

pub(super) use host::Invocation;
pub use host::{ProcessHost, ProcessLimits};
pub(super) use reader::OutputReader;
pub(crate) use reckon::CutOff;
