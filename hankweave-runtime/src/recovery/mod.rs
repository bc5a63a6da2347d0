//! Start-up in order: what is wrong is found before anything is written, the lock comes before everything else on disk (RUN-1, L3).

mod checkpoints;
mod crash;
mod open;
mod own_files;
mod preflight;
mod rigs;
mod set_aside;

pub(crate) use checkpoints::recorded;
pub use open::OpenError;
pub(crate) use open::{OpenRequest, Opened, Possession, open, possess_without_hank, without_own_files};
pub use preflight::PreflightError;
#[cfg(feature = "server")]
pub(crate) use preflight::{missing_agents, planned, refused};
pub(crate) use rigs::{last_invocation, remembered_hank};
