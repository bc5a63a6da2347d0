//! A disk in memory that keeps apart what was written and what is durable.
//!
//! - The content of a file is durable after its sync; its name is durable after a sync of the directory that holds it.
//! - When the runtime is killed, everything written stays, but it is no more durable than before: a later loss of power can
//!   still take it.
//! - When the power goes, each file and each directory keeps what was synced and some of what came after: the first changes, any of them,
//!   or none. A write may be torn at a border of 512 bytes, and what is missing of it may read as zeros. A new name may be there
//!   without its content.
//! - No later sync of a life makes durable what a failed one should have, even if the later sync succeeds.

mod directory;
mod file;
mod files;
mod folder;
mod plan;
mod sim_disk;
#[cfg(test)]
mod tests;

pub(crate) use files::USER;
pub use files::{Content, Tree};
pub use plan::{Plan, Trouble, TroubleKind};
pub use sim_disk::{Crash, SimDisk};
