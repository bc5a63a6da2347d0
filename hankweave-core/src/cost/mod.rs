//! Money and tokens: exact sums, floating point only at the border.

mod accounting;
pub mod pricing;
mod tokens;
mod usd;

pub use accounting::{ModelUsage, ProcessUsage, ReportedUsage, UsageTotals};
pub use tokens::{RecordedTokens, TokenUsage};
pub use usd::{InvalidUsd, Usd};
