//! The state document, `.hankweave/state.json`: what it holds, how it is read and checked, and what a person
//! should know about it.

mod check;
mod checkpoints;
mod codec;
mod operation;
mod outline;
mod plan;
mod problem;
mod query;
mod run;
mod state;
mod tree;
mod warnings;

pub use checkpoints::{CheckpointFacts, CheckpointTable, KnownCheckpoints};
pub use codec::{MAX_STATE_BYTES, MAX_STATE_DEPTH, foreign_version, parse, render};
pub use operation::{Operation, OperationKind, Removed};
pub use plan::{PlanEntry, PlannedCodon};
pub use problem::{ProblemKind, StateProblem, StateWarning, WarningKind};
pub use run::{ContinuationReason, ContinuationSource, RunRecord, RunStatus, StartingConditions};
pub use state::{Approval, HankweaveState, PendingRollback};
pub use warnings::{Surroundings, warnings};
