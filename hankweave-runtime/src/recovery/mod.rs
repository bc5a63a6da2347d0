//! Opens an execution directory: checks the hank before anything is written, takes the lock before any other file is touched, opens the
//! records, and repairs what a crashed run has left (RUN-1, L3). `embed` and `open_directory` call it.

mod checkpoints;
mod crash;
mod open;
mod own_files;
mod rigs;
mod set_aside;
mod shield;
mod spared;

pub use checkpoints::recorded_checkpoints;
pub use crash::{LEFT_BEHIND, last_sign, left_running, lived};
pub use open::OpenExecutionError;
pub(crate) use open::{
    LockedExecution, OpenExecutionRequest, OpenedExecution, open, possess_without_hank, remember_hank,
    without_own_files,
};
pub use rigs::{LastRun, last_hank, last_run};
