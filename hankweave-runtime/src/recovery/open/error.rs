//! Why an execution directory cannot be opened.

use std::io;
use std::path::PathBuf;

use hankweave_core::plan::ExpandError;

use crate::arrival::ArrivalError;
use crate::checkpoint::{self, HistoryError};
use crate::data::DataError;
use crate::instance_lock::LockError;
use crate::preflight::PreflightError;
use crate::state_manager::{LoadError, TransitionError};
use crate::world::disk::IoError;

/// Why an execution directory could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenExecutionError {
    /// The hank cannot be run here; nothing was written.
    #[error(transparent)]
    Preflight(PreflightError),
    /// The execution directory cannot be used.
    #[error("failed to use `{path}` as execution directory")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Error of the system.
        #[source]
        source: io::Error,
    },
    /// A rehearsal was to start in a directory with the record of a run.
    #[error("failed to rehearse in `{path}`: it holds the record of a run, which a rehearsal must not touch")]
    RecordOfRuns {
        /// The directory.
        path: PathBuf,
    },
    /// The data cannot be used.
    #[error(transparent)]
    Data(DataError),
    /// hank.json has changed so that the plan cannot be done with it.
    #[error("hank.json no longer fits the {} plan: {}", if *.replanned { "new" } else { "recorded" },
        .why.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    ChangedHank {
        /// Everything in the plan that does not fit.
        why: Vec<ExpandError>,
        /// Whether the plan was made again from the hank.
        replanned: bool,
    },
    /// The new plan could not be recorded.
    #[error("failed to record the new plan")]
    Plan(#[source] TransitionError),
    /// The output directory cannot be used.
    #[error("failed to use `{}` as output directory", path.display())]
    Output {
        /// The directory.
        path: PathBuf,
        /// Error of the system, or a problem of the data.
        #[source]
        source: io::Error,
    },
    /// Another instance holds the directory, or the lock failed.
    #[error(transparent)]
    Lock(LockError),
    /// The journal cannot be used.
    #[error(transparent)]
    Journal(IoError),
    /// The state cannot be used.
    #[error(transparent)]
    State(LoadError),
    /// The checkpoint repository cannot be used.
    #[error(transparent)]
    Checkpoints(checkpoint::OpenStoreError),
    /// The checkpoints cannot be read, so it is unknown where to continue.
    #[error("failed to look for the recorded checkpoints")]
    History(#[source] HistoryError),
    /// A record from another machine is not in place yet.
    #[error("failed to put in place what came from another machine")]
    Arrival(#[source] ArrivalError),
    /// A crash that was found could not be recorded.
    #[error("failed to record the crash of an earlier run")]
    Crash(#[source] TransitionError),
}
