//! Limits of a codon, and whether they are used up (HANK-30 to HANK-40).
//!
//! Usage is computed from the document (the recorded state), so a retry, another run and a restart after a crash continue the count.
//!
//! - [`Ceiling`]: the total budget; when it is used up the run pauses, and [`CeilingUse`] shows how the run can continue;
//! - [`limits`]: the limits that are left for one codon at its start, and [`RunBudgets`] for one codon after the other;
//! - [`Meter`]: the usage of a codon while it works; [`BudgetExceeded`](crate::codon::BudgetExceeded) reports a limit that is
//!   reached;
//! - [`summary`]: all budgets for people, when a run ends.

mod account;
mod ceiling;
mod limits;
mod meter;
mod pool;
mod summary;

pub use account::time_at_work;
pub use ceiling::{Ceiling, CeilingUse};
pub use limits::{CodonLimits, PartOf, RunBudgets, limits};
pub use meter::Meter;
pub use summary::{BudgetStatus, BudgetSummaryRow, Summary, summary};
