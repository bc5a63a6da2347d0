//! Tasks of the task system: their state machine.

pub mod machine;
mod result;

pub use machine::task::*;
pub use result::TaskResult;
