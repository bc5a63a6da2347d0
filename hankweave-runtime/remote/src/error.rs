//! Errors of push, clone and pull.

use std::path::PathBuf;
use std::time::Duration;

use hankweave_runtime::arrival::ArrivalError;
use hankweave_runtime::checkpoint::{ObjectError, OpenStoreError, RestoreError};
use hankweave_runtime::world::disk::IoError;

/// Reason why a run was not pushed, cloned or pulled. Unless a variant says otherwise, this machine and the record on the remote are unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// Git is not installed.
    #[error("git is not installed: no folder of PATH has it")]
    NoGit,
    /// The system did not start git, or did not pass on its output.
    #[error("failed to {action} with git")]
    Process {
        /// Purpose of the git command.
        action: &'static str,
        /// Error of the system.
        #[source]
        source: std::io::Error,
    },
    /// Git failed.
    #[error("failed to {action}: {said}")]
    Git {
        /// Purpose of the git command.
        action: &'static str,
        /// End of git's error output.
        said: String,
    },
    /// Git exceeded its time limit.
    #[error("failed to {action}: git was not done after {} s", limit.as_secs())]
    TimedOut {
        /// Purpose of the git command.
        action: &'static str,
        /// Time limit.
        limit: Duration,
    },
    /// A file of this machine could not be read or written.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The record could not be written into the repository of the checkpoints.
    #[error(transparent)]
    Record(#[from] ObjectError),
    /// The given remote is not valid.
    #[error("`{url}` is no git remote: {why}")]
    BadUrl {
        /// Given remote.
        url: String,
        /// Problem.
        why: &'static str,
    },
    /// No remote was given and none is remembered.
    #[error("this run has no remote yet")]
    NoRemote,
    /// There is no recorded run to push.
    #[error("nothing has run here yet")]
    NothingRecorded,
    /// The record of this machine is unreadable.
    #[error("the record of this run cannot be read: {why}")]
    Unreadable {
        /// Problem.
        why: String,
    },
    /// Another process pushes or pulls in this directory.
    #[error("another push or pull works in `{}`", directory.display())]
    Busy {
        /// The execution directory.
        directory: PathBuf,
    },
    /// A run works in the directory.
    #[error("a run works in `{}`", directory.display())]
    Live {
        /// The execution directory.
        directory: PathBuf,
    },
    /// The remote has no run.
    #[error("`{url}` has no run")]
    Empty {
        /// The remote.
        url: String,
    },
    /// The remote has no run of this name.
    #[error("`{url}` has no run `{wanted}`")]
    NoSuchRun {
        /// The remote.
        url: String,
        /// Requested name.
        wanted: String,
        /// Existing names.
        known: Vec<String>,
    },
    /// Several runs fit the requested name.
    #[error("`{url}` has {} runs: {}", known.len(), known.join(", "))]
    Several {
        /// The remote.
        url: String,
        /// Names of those runs.
        known: Vec<String>,
    },
    /// Both sides continued, so neither record follows the other.
    #[error("both sides continued: this machine has {ours}, the remote has {theirs}")]
    Diverged {
        /// The record of this machine.
        ours: String,
        /// Record of the remote.
        theirs: String,
        /// The reference under which our record was pushed to the remote; `None` if that failed.
        kept: Option<String>,
    },
    /// The remote is ahead, and this machine has nothing of its own to push.
    #[error("the remote is further: it has {theirs}")]
    Behind {
        /// Record of the remote.
        theirs: String,
    },
    /// A later owner of the task has pushed.
    #[error("{}", superseded(*.ours, *.theirs))]
    Superseded {
        /// Our fencing token.
        ours: u64,
        /// Fencing token of the record on the remote.
        theirs: u64,
        /// The reference under which our record was pushed to the remote; `None` if that failed.
        kept: Option<String>,
    },
    /// The remote's data differ from those pushed.
    #[error("what the remote has of this run is damaged: {what}")]
    Corrupt {
        /// Problem.
        what: String,
    },
    /// The record would take more space than this machine allows.
    #[error("what the remote has of this run is larger than is taken: {what}")]
    TooLarge {
        /// Description of the size and its limit.
        what: String,
    },
    /// The variable that limits the size holds no size.
    #[error("`{value}` in HANKWEAVE_MAX_SIZE is no size")]
    BadSize {
        /// Value of the variable.
        value: String,
    },
    /// A later version pushed the record.
    #[error("the run was pushed by another version of hankweave (format {found})")]
    Format {
        /// Format of the record.
        found: u64,
    },
    /// The target of a clone is not empty.
    #[error("`{}` is not empty", path.display())]
    Occupied {
        /// Target path.
        path: PathBuf,
    },
    /// The checkpoints of this machine cannot be used.
    #[error(transparent)]
    Checkpoints(#[from] OpenStoreError),
    /// The files of the checkpoint could not all be written.
    #[error("failed to bring back the files of the last checkpoint")]
    Restore(#[from] RestoreError),
    /// The record has arrived but is not fully installed; the next start finishes that.
    #[error(transparent)]
    Arrival(Box<ArrivalError>),
}

impl From<ArrivalError> for RemoteError {
    fn from(error: ArrivalError) -> Self {
        Self::Arrival(Box::new(error))
    }
}

/// Returns why our record does not replace the remote's. Without a fencing token ours is a copy that no worker made.
fn superseded(ours: u64, theirs: u64) -> String {
    match ours {
        0 => "this is a copy of the run of a task, which its workers alone push".to_owned(),
        ours => format!("the task has a later owner: its token is {theirs}, ours {ours}"),
    }
}

impl RemoteError {
    pub(crate) fn corrupt(what: impl Into<String>) -> Self {
        Self::Corrupt { what: what.into() }
    }

    /// Whether a later attempt may succeed. True if the disk, git or the remote failed, or if another push or pull works here;
    /// false if the record or the request was refused.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::Process { .. }
                | Self::Git { .. }
                | Self::TimedOut { .. }
                | Self::Io(_)
                | Self::Record(_)
                | Self::Busy { .. }
        )
    }
}
