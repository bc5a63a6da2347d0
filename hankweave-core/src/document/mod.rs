//! The state document, `.hankweave/state.json`: what it holds, how it is read and checked, and what a person
//! should know about it.

mod check;
mod checkpoints;
mod codec;
mod list;
mod operation;
mod outline;
mod plan;
mod problem;
mod query;
mod run;
mod state;
mod tree;
mod warnings;

pub use check::FORMAT;
pub use checkpoints::{CheckpointFacts, CheckpointTable, KnownCheckpoints};
pub use codec::{MAX_STATE_BYTES, MAX_STATE_DEPTH, foreign_version, parse, render, render_sized};
pub use list::{SharedIter, SharedList};
pub use operation::{Operation, OperationKind, Removed};
pub use plan::{AddedEntry, MisfitExtension, PlanEntry, PlanExtension, PlannedCodon};
pub(crate) use plan::{read_optional_plan, read_plan};
pub use problem::{ProblemKind, StateProblem, StateWarning, WarningKind};
pub use run::{ContinuationReason, ContinuationSource, RunRecord, RunStatus, StartingConditions};
pub use state::{Approval, HankweaveState, PendingRollback};
pub use warnings::{WarningContext, warnings};
