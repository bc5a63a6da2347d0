//! Errors of moving runs between machines.

use std::path::PathBuf;
use std::time::Duration;

use hankweave_runtime::arrival::ArrivalError;
use hankweave_runtime::checkpoint::{ObjectError, OpenStoreError, RestoreError};
use hankweave_runtime::world::disk::IoError;

/// Why a run was not taken to or from a remote. Unless it says otherwise nothing was changed on this machine, and the record on the remote is as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// There is no git.
    #[error("git is not installed: no folder of PATH has it")]
    NoGit,
    /// The system did not start git or did not pass on what it says.
    #[error("failed to {action} with git")]
    Process {
        /// Purpose of the git command.
        action: &'static str,
        /// Error of the system.
        #[source]
        source: std::io::Error,
    },
    /// Git has refused.
    #[error("failed to {action}: {said}")]
    Git {
        /// Purpose of the git command.
        action: &'static str,
        /// The end of what git said.
        said: String,
    },
    /// Git takes too long.
    #[error("failed to {action}: git was not done after {} s", limit.as_secs())]
    TimedOut {
        /// Purpose of the git command.
        action: &'static str,
        /// How long it had.
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
    /// Nobody has said where to.
    #[error("this run has no remote yet")]
    NoRemote,
    /// Nothing is recorded that could be pushed.
    #[error("nothing has run here yet")]
    NothingRecorded,
    /// The record of this machine cannot be read as it must be.
    #[error("the record of this run cannot be read: {why}")]
    Unreadable {
        /// Problem.
        why: String,
    },
    /// Somebody else pushes or pulls in the same directory.
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
    /// There is no run on the remote.
    #[error("`{url}` has no run")]
    Empty {
        /// The remote.
        url: String,
    },
    /// There is no such run on the remote.
    #[error("`{url}` has no run `{wanted}`")]
    NoSuchRun {
        /// The remote.
        url: String,
        /// Requested name.
        wanted: String,
        /// Existing names.
        known: Vec<String>,
    },
    /// There are several.
    #[error("`{url}` has {} runs: {}", known.len(), known.join(", "))]
    Several {
        /// The remote.
        url: String,
        /// Those that fit.
        known: Vec<String>,
    },
    /// Both sides continued.
    #[error("both sides continued: this machine has {ours}, the remote has {theirs}")]
    Diverged {
        /// The record of this machine.
        ours: String,
        /// That of the remote.
        theirs: String,
        /// The reference under which ours stays reachable on the remote.
        kept: Option<String>,
    },
    /// The remote is further, and this machine has nothing of its own.
    #[error("the remote is further: it has {theirs}")]
    Behind {
        /// The record of the remote.
        theirs: String,
    },
    /// A later owner of the task has pushed.
    #[error("{}", superseded(*.ours, *.theirs))]
    Superseded {
        /// Our fencing token.
        ours: u64,
        /// That of the record on the remote.
        theirs: u64,
        /// The reference under which ours stays reachable on the remote.
        kept: Option<String>,
    },
    /// The remote's data differ from those pushed.
    #[error("what the remote has of this run is damaged: {what}")]
    Corrupt {
        /// Problem.
        what: String,
    },
    /// It would take more room here than this machine gives to what comes from elsewhere.
    #[error("what the remote has of this run is larger than is taken: {what}")]
    TooLarge {
        /// Description of the size and its limit.
        what: String,
    },
    /// The variable for the room that is given holds no size.
    #[error("`{value}` in HANKWEAVE_MAX_SIZE is no size")]
    BadSize {
        /// Value of the field.
        value: String,
    },
    /// A later version has pushed it.
    #[error("the run was pushed by another version of hankweave (format {found})")]
    Format {
        /// Its format.
        found: u64,
    },
    /// There is something in the place of a clone.
    #[error("`{}` is not empty", path.display())]
    Occupied {
        /// The place.
        path: PathBuf,
    },
    /// The checkpoints of this machine cannot be used.
    #[error(transparent)]
    Checkpoints(#[from] OpenStoreError),
    /// The files of the checkpoint could not all be written.
    #[error("failed to bring back the files of the last checkpoint")]
    Restore(#[from] RestoreError),
    /// It has arrived and is not all in place; the next start finishes that.
    #[error(transparent)]
    Arrival(Box<ArrivalError>),
}

/// Returns why a record gives way to that of the remote; one without a token is a copy that no worker made.
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

    /// Whether the same may work later: the remote or the way to it is at fault, and nothing that was decided.
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
