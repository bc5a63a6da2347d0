//! The reducer: how events change the [document](crate::document), and which document a start works with.

mod apply;
mod index;
mod live;
mod recover;
mod rejected;

pub use apply::Applied;
pub use live::{LiveState, Totals};
pub use recover::{Candidate, RecoverError, RecoveredState, StateSource, recover};
pub use rejected::Rejected;
