//! Worker: claims pending tasks and runs their hanks, each as a child process under a lease (TASK-52 to TASK-59).
//!
//! A worker uses tasks only through the [`Coordinator`](crate::Coordinator), so it works with every registry. A task's run is described in its metadata
//! ([`TaskSpec`]); its results go into its [`layers`](crate::layers).

mod cancellation;
mod carry;
mod child;
mod claims;
mod job;
mod metrics;
mod options;
mod order;
mod orphans;
mod progress;
mod reach;
mod resources;
mod schedule;
#[cfg(test)]
mod tests;

pub use cancellation::called_off;
pub use child::WORKER_VARIABLE;
pub use claims::{Worker, WorkerSummary};
pub use job::NOT_FETCHED;
pub use metrics::{Metrics, WorkerMetrics};
pub use options::{OrphanPolicyConfig, USUAL_TRIES, WorkerOptions};
pub use order::TaskSpec;
pub use resources::ResourceWatch;
