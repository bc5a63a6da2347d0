//! Start-up in order: what is wrong is found before anything is written, the lock comes before everything
//! else on disk (RUN-1, L3).

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
