//! The reducer, which applies events to the state [document](crate::document), and recovery, which chooses the document that a start works with.

mod apply;
mod index;
mod live;
mod recover;
mod rejected;

pub use apply::Applied;
pub use live::{LiveState, Totals};
pub use recover::{Candidate, RecoverError, RecoveredState, StateSource, recover};
pub use rejected::Rejected;
