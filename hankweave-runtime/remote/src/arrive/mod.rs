//! Bringing a run here: a clone makes a directory for it, a pull brings a directory up to date. Both are verified before anything that was there changes.

mod arrived_record;
mod clone;
mod finish;
mod pull;

use std::path::PathBuf;

use hankweave_core::id::{CheckpointSha, SessionId};

pub use self::clone::{CloneRequest, clone};
pub use self::pull::{PullRequest, pull};
use crate::execution::RemoteExecution;

/// A run that is here.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FetchedRun {
    /// Whether it was not here before.
    pub changed: bool,
    /// The remote.
    pub url: String,
    /// Name of the history on the remote.
    pub execution: RemoteExecution,
    /// The record.
    pub record: String,
    /// The checkpoint whose files are here.
    pub checkpoint: Option<CheckpointSha>,
    /// The hank, if it came along.
    pub hank: Option<PathBuf>,
    /// Sessions whose transcripts stayed on another machine; their codons continue in new ones.
    pub left_behind: Vec<SessionId>,
    /// Files of the hank that differ here and were left as they are.
    pub different: Vec<PathBuf>,
    /// The reference under which our own record stays reachable on the remote, if it gave way.
    pub kept: Option<String>,
}
