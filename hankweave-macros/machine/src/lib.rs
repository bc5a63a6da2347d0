#![doc = include_str!("../README.md")]
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;
#[cfg(test)]
extern crate self as hankweave_machine;
#[cfg(any(feature = "std", test))]
extern crate std;

mod checked;
mod demands;
mod diagram;
#[cfg(feature = "serde")]
mod extra;
mod graph;
mod name;
mod refusal;
mod sample;
#[cfg(test)]
mod samples;
#[cfg(feature = "schema")]
pub mod schema;
#[cfg(feature = "serde")]
pub mod stored;
pub mod testing;
mod walks;

pub use checked::CheckedAdd;
#[cfg(feature = "serde")]
pub use extra::Extra;
pub use graph::{Edge, Field, Machine, State};
pub use name::{Name, UnknownName};
pub use refusal::{InvalidTransition, Reason, StateMismatch, Violation};
pub use sample::Sample;
pub use walks::{Walk, Walks};

pub use hankweave_macros::machine;

#[cfg(any(doc, doctest))]
#[doc = include_str!("../docs/changing.md")]
pub mod changing {}

/// Items of other crates for generated code. Not part of the public interface.
#[doc(hidden)]
pub mod __private {
    pub use ::core;

    pub use alloc::boxed::Box;
    pub use alloc::format;
    pub use alloc::string::String;
    pub use alloc::vec::Vec;

    pub use crate::checked::{Assigned, Change, Pair, Sums, Unchecked};
    #[cfg(feature = "serde")]
    pub use crate::demands::Storable;
    pub use crate::demands::{If, Recordable};
    pub use crate::refusal::refused;

    /// Never runs: the bound of its caller never holds.
    pub fn never() -> ! {
        unreachable!("the bound never holds")
    }

    /// Panics with the message if the field cannot hold the sum.
    #[track_caller]
    pub fn holds(sum: bool, message: &str) {
        assert!(sum, "{message}");
    }

    /// Calls a `next` of the declaration. The value stands first, so rustc knows its type when it checks the closure.
    pub fn next<T, U>(value: T, next: impl FnOnce(T) -> U) -> U {
        next(value)
    }

    #[cfg(feature = "schema")]
    pub use alloc::borrow::Cow;
    #[cfg(feature = "schema")]
    pub use schemars;
    #[cfg(feature = "serde")]
    pub use serde;
    #[cfg(feature = "schema")]
    pub use serde_json::Value;
}
