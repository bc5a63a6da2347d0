//! The hankweave runtime: drives coding agents, checkpoints their work and records every step durably.

pub mod checkpoint;
pub mod driver;
pub mod hank_files;
pub mod instance_lock;
pub mod journal;
pub mod rig;
pub mod state_manager;
pub mod store;
pub mod world;
