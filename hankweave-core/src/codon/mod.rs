//! One codon: its state machine and its stored form.

mod cost;
mod fields;
pub mod machine;
mod sentinels;

pub use machine::codon::*;
pub use sentinels::{
    Executed, Loaded, SentinelPhase, SentinelState, SentinelStatus, Sentinels, UnloadReason,
};
