//! From a hank to concrete steps.

mod entry;

pub use entry::{LoopContext, PlanEntry, PlannedCodon};
