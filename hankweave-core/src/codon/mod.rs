//! One codon: its state machine and its stored form.

mod checkpoint;
mod chosen;
mod cost;
mod exceeded;
mod fields;
mod loop_check;
pub mod machine;
mod place;
mod sentinels;

pub use checkpoint::CheckpointType;
pub use chosen::{ChosenAgent, InsteadOf};
pub use exceeded::BudgetExceeded;
pub use fields::MOST_ASKED;
pub use loop_check::{LoopCheck, LoopStall, without_times};
pub use machine::codon::*;
pub use place::LoopContext;
pub use sentinels::{
    Executed, Loaded, SentinelPhase, SentinelState, SentinelStatus, Sentinels, UnloadReason,
};
