//! What an execution directory tells a program that only looks at it: nothing here takes the directory or changes it.

pub use crate::recovery::{LastRun, last_hank, last_run, recorded_checkpoints};
pub use crate::runner::has_unfinished_results;
