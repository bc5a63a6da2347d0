//! The life of one run: its state machine.
//!
//! The record of a run in state.json is [`state::Run`](crate::state::Run); its status moves only as this machine allows.

pub mod machine;

pub use machine::run::*;
