//! The seams between hankweave and the world: time, disk, network, ids and processes.
//!
//! The rest of the runtime reaches the outside only through these traits, so that a test can replace any of them.

pub mod blocking;
pub mod clock;
pub mod disk;
pub mod environment;
pub mod http;
pub mod identity;
pub mod ids;
pub mod net;
pub mod process;
pub mod secrets;
pub mod suspension;

mod everything;
#[cfg_attr(all(target_os = "linux", not(feature = "portable")), path = "system/linux.rs")]
#[cfg_attr(
    not(all(target_os = "linux", not(feature = "portable"))),
    path = "system/portable.rs"
)]
mod system;

pub use everything::World;

/// Returns what this system cannot do for a run, each a sentence (S13).
#[must_use]
pub fn weaknesses() -> &'static [&'static str] {
    system::WEAKER
}
