//! Everything in hankweave that decides, as pure functions over plain data.

extern crate self as hankweave_core;

pub mod cost;
pub mod id;
pub mod time;
