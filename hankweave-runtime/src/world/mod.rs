//! The seams between hankweave and the world: time, disk, ids and processes.
//!
//! The rest of the runtime reaches the outside only through these traits, so that a test can replace any of them.

pub mod blocking;
pub mod clock;
pub mod disk;
pub mod identity;
pub mod ids;
pub mod process;
