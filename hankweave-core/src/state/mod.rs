//! The reducer: how events change the [document](crate::document), and which document a start works with.

mod apply;
mod index;
mod live;
mod recover;

pub use apply::{Applied, Rejected};
pub use live::{LiveState, Totals};
pub use recover::{Candidate, RecoverError, Recovered, Source, recover};
