//! Contents of an execution directory for a program that only reads it: nothing here takes the directory or changes it.

pub use crate::recovery::{
    LEFT_BEHIND, LastRun, last_hank, last_run, last_sign, left_running, lived, recorded_checkpoints,
};
pub use crate::runner::{COPIED, DiskUse, has_unfinished_results};
