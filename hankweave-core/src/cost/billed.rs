//! What a provider bills for one model message.

use super::pricing::Prices;
use super::{TokenUsage, Usd};

/// Tokens of one message, and what is billed besides or at another price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Billed {
    /// All tokens.
    pub tokens: TokenUsage,
    /// How many of the tokens written to the cache stay there for an hour, which costs more.
    pub long_cache_writes: u64,
    /// Searches of the web that the provider made for the message.
    pub web_searches: u64,
}

impl Billed {
    /// Whether there is nothing to pay for.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// The price, or `None` for a model without a known one.
    #[must_use]
    pub fn price(&self, model: &str, prices: &Prices) -> Option<Usd> {
        let (_, price) = prices.find(model)?;
        Some(price.rate.price(self))
    }

    /// The larger of two reports about the same message: its figures only grow while it is written.
    #[must_use]
    pub fn at_least(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.at_least(other.tokens),
            long_cache_writes: self.long_cache_writes.max(other.long_cache_writes),
            web_searches: self.web_searches.max(other.web_searches),
        }
    }
}

impl From<TokenUsage> for Billed {
    fn from(tokens: TokenUsage) -> Self {
        Self {
            tokens,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_writes_for_an_hour_and_searches_have_their_own_prices() {
        let billed = Billed {
            tokens: TokenUsage {
                cache_creation_tokens: 1_000,
                ..TokenUsage::ZERO
            },
            ..Billed::default()
        };
        let price = |billed: Billed| billed.price("claude-sonnet-4-5", &Prices::listed()).unwrap();
        assert_eq!(price(billed), Usd::from_micros(3_750));
        let long = Billed {
            long_cache_writes: 600,
            ..billed
        };
        assert_eq!(price(long), Usd::from_micros(400 * 3_750 / 1_000 + 600 * 6));
        let searched = Billed {
            web_searches: 3,
            ..billed
        };
        assert_eq!(price(searched), Usd::from_micros(33_750));
        assert_eq!(searched.price("somebody's model", &Prices::listed()), None);
    }
}
