//! The seams between hankweave and the world: time, disk, network, ids and processes.
//!
//! The rest of the runtime reaches the outside only through these traits, so that a test can replace any of them.

#[cfg(feature = "server")]
pub mod blocking;
pub mod clock;
pub mod disk;
pub mod environment;
pub mod identity;
pub mod ids;
#[cfg(feature = "server")]
pub mod net;
#[cfg(feature = "server")]
pub mod process;
#[cfg(feature = "server")]
pub mod secrets;

#[cfg(feature = "server")]
mod everything;

#[cfg(feature = "server")]
pub use everything::World;
