//! Everything in hankweave that decides, as pure functions over plain data.

extern crate self as hankweave_core;

pub mod agent;
pub mod cost;
pub mod hank;
pub mod id;
pub mod plan;
pub mod time;
