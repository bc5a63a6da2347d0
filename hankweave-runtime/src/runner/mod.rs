//! Runs a hank: continues from the recorded state, asks [`decide`](hankweave_core::plan::decide) for the next step and takes
//! it, until nothing is left or the run has to end.

mod approval;
mod begin;
mod cleanup;
mod command;
mod disk;
mod error;
mod finish;
mod heartbeat;
mod live_files;
mod outcome;
mod plan_fit;
mod rig_cleanup;
mod rollback;
mod run;
mod steps;
mod suspensions;
mod target;
#[cfg(test)]
pub(crate) mod tests;
mod wait;

pub(crate) use approval::{record as answer_approval, withdraw as withdraw_approval};
pub use begin::{SuccessTarget, UnfinishedCodon};
pub(crate) use begin::{has_nothing_to_do, taken_back, trouble};
pub use cleanup::{CleanupError, CleanupPlan, CleanupReport, OldRun};
pub(crate) use cleanup::{clean_up, plan as plan_cleanup};
pub use command::{AcceptedCommand, Commander, Refusal, RunCommand};
pub(crate) use command::{Inbox, channel};
pub use disk::DiskUse;
pub use error::RunError;
pub use finish::{COPIED, has_unfinished_results};
pub(crate) use live_files::LiveFiles;
pub use outcome::{CodonSummary, Pause, RunOutcome, RunResult};
pub(crate) use plan_fit::replan;
pub use rollback::{Rollback, RollbackError};
pub(crate) use rollback::{go_back, known_checkpoints, preview};
pub(crate) use run::{RunDependencies, run};
pub use target::RollbackTarget;
