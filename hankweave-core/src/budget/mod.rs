//! What a codon may use, and whether it has used it up (HANK-30 to HANK-40).
//!
//! Everything follows from the document, so another try, another run and a restart after a crash go on counting where the one before stopped.
//!
//! - [`Ceiling`]: what everything together may use; when that is used up the run pauses, and [`Whole`] tells with what it goes on;
//! - [`limits`]: what is left of all that for one codon, when it begins;
//! - [`Meter`]: what an agent has used of it, told by [`BudgetExceeded`](crate::codon::BudgetExceeded) when nothing is left;
//! - [`summary`]: all of it for people, when a run ends.

mod account;
mod ceiling;
mod limits;
mod meter;
mod pool;
mod summary;

pub use ceiling::{Ceiling, Whole};
pub use limits::{Limits, OfTheWhole, limits};
pub use meter::Meter;
pub use summary::{BudgetStatus, Row, Summary, summary};
