//! Locks of the task system: the state machine of one acquisition.

mod failure;
pub mod machine;
mod mode;

pub use failure::LockFailure;
pub use machine::lock::*;
pub use mode::LockMode;
