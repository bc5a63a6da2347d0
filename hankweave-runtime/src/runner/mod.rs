//! One run: takes up what is recorded, asks [`decide`](hankweave_core::plan::decide) what is next and does it.

mod begin;
mod outcome;
mod run;
mod steps;

pub use outcome::{CodonSummary, RunOutcome, RunResult};
pub use run::RunError;
pub(crate) use run::run;
