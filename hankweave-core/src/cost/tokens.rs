//! Token counts.

use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::machine::Extra;
use crate::shape::{Checker, Shape};

/// Tokens of one message, one codon or one run; sums stop at the largest number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, Shape)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TokenUsage {
    /// Tokens of the prompt that were neither written to nor read from a cache.
    pub input_tokens: u64,
    /// Tokens that the model wrote.
    pub output_tokens: u64,
    /// Prompt tokens written to the cache.
    pub cache_creation_tokens: u64,
    /// Prompt tokens read from the cache.
    pub cache_read_tokens: u64,
}

impl TokenUsage {
    /// No tokens.
    pub const ZERO: Self = Self {
        input_tokens: 0,
        output_tokens: 0,
        cache_creation_tokens: 0,
        cache_read_tokens: 0,
    };

    /// All four counts together.
    #[must_use]
    pub fn total(&self) -> u64 {
        let cached = self.cache_creation_tokens.saturating_add(self.cache_read_tokens);
        cached
            .saturating_add(self.input_tokens)
            .saturating_add(self.output_tokens)
    }

    /// The larger of two counts of each kind.
    #[must_use]
    pub fn at_least(self, other: Self) -> Self {
        self.with(other, u64::max)
    }

    /// Returns each count combined with the matching count of `other`.
    fn with(self, other: Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            input_tokens: combine(self.input_tokens, other.input_tokens),
            output_tokens: combine(self.output_tokens, other.output_tokens),
            cache_creation_tokens: combine(self.cache_creation_tokens, other.cache_creation_tokens),
            cache_read_tokens: combine(self.cache_read_tokens, other.cache_read_tokens),
        }
    }
}

/// Token counts as a record holds them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RecordedTokens {
    /// The counts.
    #[serde(flatten)]
    pub usage: TokenUsage,
    /// Fields that other versions wrote; kept as they are.
    #[serde(flatten)]
    pub extra: Extra,
}

impl Shape for RecordedTokens {
    fn check(checker: &mut Checker, value: &mut Value) {
        TokenUsage::check(checker, value);
    }
}

impl From<TokenUsage> for RecordedTokens {
    fn from(usage: TokenUsage) -> Self {
        Self {
            usage,
            extra: Extra::default(),
        }
    }
}

impl AddAssign for RecordedTokens {
    /// Adds the counts; the fields of other versions stay those of the left side.
    fn add_assign(&mut self, other: Self) {
        self.usage += other.usage;
    }
}

impl Add for TokenUsage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.with(other, u64::saturating_add)
    }
}

/// Each count stops at zero.
impl Sub for TokenUsage {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self.with(other, u64::saturating_sub)
    }
}

impl AddAssign for TokenUsage {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for TokenUsage {
    fn sum<I: Iterator<Item = Self>>(usages: I) -> Self {
        usages.fold(Self::ZERO, Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: D10
    #[test]
    fn sums_stop_at_the_largest_number() {
        let most = TokenUsage {
            input_tokens: u64::MAX,
            ..TokenUsage::ZERO
        };
        let sum = most
            + TokenUsage {
                input_tokens: 1,
                output_tokens: 2,
                ..TokenUsage::ZERO
            };
        assert_eq!((sum.input_tokens, sum.output_tokens), (u64::MAX, 2));
        assert_eq!(sum.total(), u64::MAX);
    }
}
