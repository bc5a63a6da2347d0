//! Everything in hankweave that decides, as pure functions over plain data.

#![cfg_attr(not(feature = "serde"), no_std)]

extern crate alloc;
extern crate self as hankweave_core;

pub mod machine;

#[cfg(feature = "serde")]
pub mod agent;
#[cfg(feature = "serde")]
pub mod codon;
#[cfg(feature = "serde")]
pub mod cost;
#[cfg(feature = "serde")]
pub mod event;
#[cfg(feature = "serde")]
pub mod hank;
#[cfg(feature = "serde")]
pub mod id;
#[cfg(feature = "serde")]
pub mod plan;
#[cfg(feature = "schema")]
pub mod schema;
#[cfg(feature = "serde")]
pub mod state;
#[cfg(all(feature = "serde", feature = "testing"))]
pub mod testing;
#[cfg(feature = "serde")]
pub mod thread;
#[cfg(feature = "serde")]
pub mod time;
#[cfg(feature = "serde")]
pub mod wire;

pub use hankweave_macros::machine;

/// What generated code needs from other crates. Not part of the public interface.
#[doc(hidden)]
pub mod __private {
    pub use alloc::boxed::Box;
    pub use alloc::format;
    pub use alloc::string::String;
    pub use alloc::vec::Vec;

    #[cfg(feature = "serde")]
    pub use serde;
}
