//! Files of tasks. Each task has a folder under one root, with `state.json`, `logs.jsonl`, `decisions.md`, `Plan.md` and `checkpoints` (TASK-40 to
//! TASK-51). Each of these kinds of files is a layer.
//!
//! Every path is opened name by name and through no link, and a name is checked before it is used. So nothing is read or written outside the root
//! (TASK-51). The calls block; [`TaskFiles::run`] runs them on a pool.

mod checkpoints;
mod compress;
mod cost;
mod decisions;
mod error;
mod figures;
mod files;
mod folder;
mod lines;
mod location;
mod log;
mod origin;
mod plan;
mod recover;
mod restore;
mod rotate;
mod state;
mod sweep;
#[cfg(test)]
mod tests;

pub use checkpoints::Checkpoints;
pub(crate) use cost::{RecordedBefore, RecordedCost, SplitCost};
pub use decisions::{SAID, WORKSPACE};
pub use error::LayerError;
pub use figures::{Layer, LayerMetric, LayerOperation};
pub use files::{TaskFiles, TaskLayers};
pub use location::{LeaveReason, MissingFiles, machine_name};
pub use log::{Durability, TaskLog};
pub use recover::{RecoveredBy, RecoveredTask};
pub use restore::RestoreOptions;
pub use sweep::SweepReport;

/// Names in the folder of a task.
const STATE: &str = "state.json";
const LOGS: &str = "logs.jsonl";
const DECISIONS: &str = "decisions.md";
const PLAN: &str = "Plan.md";
const CHECKPOINTS: &str = "checkpoints";
const MANIFEST: &str = "manifest.json";

/// Name prefix of unfinished folders; a sweep removes those that a crash left.
const UNFINISHED_FOLDER: &str = ".tmp-";

/// Name suffix of unfinished files, likewise.
const UNFINISHED_FILE: &str = ".tmp";

/// Suffix of packed files.
const PACKED: &str = ".gz";

/// Limit for files that are read as a whole, in bytes.
const LARGEST: u64 = 512 << 20;
