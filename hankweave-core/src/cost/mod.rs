//! Money and tokens: exact sums, floating point only at the border.

mod tokens;
mod usd;

pub use tokens::TokenUsage;
pub use usd::{InvalidUsd, Usd};
