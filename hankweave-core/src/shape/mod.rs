//! What JSON from outside must look like, and every difference from it in words for people.
//!
//! Rules go in, findings with a path come out; the types then read what has none. Documents and events are checked with it. No rule of one record
//! stands here, only what both have.

mod checker;
pub(crate) mod depth;
mod leaf;

pub(crate) use checker::{
    Checker, Finding, Rule, any_object, kind_of, nullable, optional, remove_null, required,
};
pub(crate) use leaf::leaf;
