//! Tasks of the task system: their state machine.

mod approval;
mod failure;
pub mod machine;
mod result;

pub use approval::TaskApproval;
pub use failure::{NeededBudget, TaskFailure};
pub use machine::task::*;
pub use result::TaskResult;
