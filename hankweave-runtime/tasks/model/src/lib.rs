//! Decisions for workers that share tasks: lock holders, write permission, and the format of a task's files (TASK-1 to TASK-22, TASK-40 to TASK-48).
//!
//! Nothing here reads a clock or touches a disk. Callers pass in times and texts, and get texts back.
//!
//! Comments cite the rules of [docs/rules](https://github.com/hankweave/hankweave/tree/main/docs/rules) by ids such as `STATE-12`.

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
pub use checkpoint::{CheckpointId, Restored, TaskCheckpoint, TaskCheckpointManifest};
pub use checksum::{canonical, read_object, seal, verify};
pub use decisions::{AgentDecision, Decisions};
pub use error::TaskError;
pub use executions::{AttemptCost, SUSPENDED_MS, TaskExecution, executions, with_codons};
pub use hooks::{DEFAULT_PRIORITY, Hook, HookId, HookPoint, HookPolicy, Hooks, LONGEST_HOOK};
pub use locks::LockTable;
pub use logs::{LogEntry, LogFold, LogLevel, LogQuery, TaskLogPage, lines};
pub use plan::plan;
pub use resource::{Holder, LockDemand, LockGrant, Resource};
pub use rotation::Retention;
pub use schedule::{BETWEEN_INTERRUPTIONS, INTERRUPTED_AFTER, Risk, UnsavedWork, interruption_counts};
pub use state::TaskState;
