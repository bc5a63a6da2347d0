//! Clone and pull. A clone creates a directory for a history of runs, a pull updates a directory. Both verify the record
//! before they change existing files.

mod arrived_record;
mod clone;
mod finish;
mod pull;

use std::path::PathBuf;

use hankweave_core::id::{CheckpointSha, SessionId};

pub use self::clone::{CloneRequest, clone};
pub use self::pull::{PullRequest, pull};
use crate::execution::RemoteExecution;

/// Run that was cloned or pulled.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FetchedRun {
    /// Whether the record is new on this machine.
    pub changed: bool,
    /// The remote.
    pub url: String,
    /// Name of the history on the remote.
    pub execution: RemoteExecution,
    /// Commit of the record.
    pub record: String,
    /// Checkpoint whose files were restored.
    pub checkpoint: Option<CheckpointSha>,
    /// File of the hank, if the record has it.
    pub hank: Option<PathBuf>,
    /// Sessions whose transcripts stayed on another machine; their codons continue in new ones.
    pub left_behind: Vec<SessionId>,
    /// Files of the hank that differ on this machine and were left as they are.
    pub different: Vec<PathBuf>,
    /// The reference under which our own record stays reachable on the remote, if the remote's record replaced it.
    pub kept: Option<String>,
}
