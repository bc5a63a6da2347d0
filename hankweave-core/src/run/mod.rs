//! The life of one run: its state machine.
//!
//! The record of a run in state.json is [`RunRecord`](crate::document::RunRecord); its status moves only as this machine allows.

pub mod machine;

pub use machine::run::*;
