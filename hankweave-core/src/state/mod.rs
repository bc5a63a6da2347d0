//! The state document, `.hankweave/state.json`, and the reducer that changes it.

mod apply;
mod check;
mod codec;
pub(crate) mod depth;
mod document;
mod index;
mod live;
mod outline;
mod parts;
mod problem;
mod query;
mod recover;
mod run;
mod tree;
mod warnings;

pub use apply::{Applied, Rejected};
pub use codec::{MAX_STATE_BYTES, MAX_STATE_DEPTH, foreign_version, parse, render};
pub use document::{HankweaveState, PendingRollback};
pub use live::{LiveState, Totals};
pub use problem::{ProblemKind, StateProblem, StateWarning, WarningKind};
pub use recover::{Candidate, RecoverError, Recovered, Source, recover};
pub use run::{ContinuationReason, ContinuationSource, Run, RunStatus, StartingConditions};
pub use warnings::{Surroundings, warnings};
