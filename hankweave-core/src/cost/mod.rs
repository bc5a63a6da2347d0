//! Money and tokens: prices, the usage of a process, and exact sums. Floating point occurs only where JSON is read or written.

mod accounting;
mod billed;
mod overrun;
pub mod pricing;
mod tier;
mod tokens;
mod usd;

pub use accounting::{
    CountedUsage, MessageIds, ModelUsage, ProcessUsage, ReportedUsage, UsageConfidence, UsageTotals,
};
pub use billed::{Billed, PricedAt};
pub(crate) use overrun::overrun;
pub use overrun::{over_budget, overrun_words};
pub use tier::{ServiceTier, TierMultiple};
pub use tokens::{RecordedTokens, TokenUsage};
pub use usd::{InvalidUsd, Usd};
