//! The state document, `.hankweave/state.json`, and the reducer that changes it.

mod apply;
mod codec;
mod document;
mod live;
mod query;
mod recover;
mod run;

pub use apply::{Applied, Rejected, apply};
pub use codec::{MAX_STATE_BYTES, ProblemKind, StateProblem, parse, render};
pub use document::HankweaveState;
pub use live::{LiveState, Totals};
pub use recover::{Candidate, RecoverError, Recovered, Source, recover};
pub use run::{ContinuationReason, ContinuationSource, Run, RunStatus, StartingConditions};
