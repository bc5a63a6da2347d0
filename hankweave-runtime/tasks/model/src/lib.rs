//! What decides when many workers share tasks: who holds a lock and may write, and what the files of a task look like (TASK-1 to TASK-22, TASK-40 to TASK-48).
//!
//! Nothing here reads a clock or touches a disk: points in time are given, texts go in and come out.

mod backoff;
mod checkpoint;
mod checksum;
mod decisions;
mod error;
mod executions;
mod hooks;
pub mod lock;
mod locks;
mod logs;
mod plan;
pub mod registry;
mod resource;
mod rotation;
#[cfg(test)]
mod samples;
mod schedule;
mod state;
pub mod task;

pub use backoff::Tries;
pub use checkpoint::{Checkpoint, CheckpointId, Manifest, Restored};
pub use checksum::{canonical, read_object, seal, verify};
pub use decisions::{Decision, Decisions};
pub use error::TaskError;
pub use executions::{Execution, executions};
pub use hooks::{DEFAULT_PRIORITY, Hook, HookId, HookPoint, HookPolicy, Hooks, LONGEST_HOOK};
pub use locks::LockTable;
pub use logs::{Level, LogEntry, LogFold, LogQuery, Logs, lines};
pub use plan::plan;
pub use resource::{Demand, Held, Holder, Resource};
pub use rotation::Retention;
pub use schedule::{BETWEEN_INTERRUPTIONS, INTERRUPTED_AFTER, Risk, Stake, interruption_counts};
pub use state::TaskState;
