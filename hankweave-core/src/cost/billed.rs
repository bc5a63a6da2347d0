//! Amounts that a provider bills for one model message.

use super::pricing::Prices;
use super::{ServiceTier, TokenUsage, Usd};

/// Tokens of one message, and the further facts on which its price depends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Billed {
    /// All tokens.
    pub tokens: TokenUsage,
    /// Number of the tokens written to the cache that stay there for an hour, which costs more.
    pub long_cache_writes: u64,
    /// Number of web searches that the provider made for the message.
    pub web_searches: u64,
    /// Tier in which the provider served the message.
    pub tier: ServiceTier,
}

/// Price of some usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PricedAt {
    /// The money; zero for a model without a known price.
    pub cost: Usd,
    /// Whether `cost` is complete: model and tier have a known price.
    pub is_whole: bool,
}

impl Billed {
    /// Whether there is nothing to pay for.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.tokens == TokenUsage::ZERO && self.long_cache_writes == 0 && self.web_searches == 0
    }

    /// Returns the known part of the price, and whether that is all of it (AGENT-46).
    #[must_use]
    pub fn priced(&self, model: &str, prices: &Prices) -> PricedAt {
        match prices.find(model) {
            Some((_, price)) => PricedAt {
                cost: price.rate.price(self),
                is_whole: price.rate.is_known_in(self.tier),
            },
            None => PricedAt {
                cost: Usd::ZERO,
                is_whole: self.is_nothing(),
            },
        }
    }

    /// Returns the price; `None` for a model without a known price.
    #[must_use]
    pub fn price(&self, model: &str, prices: &Prices) -> Option<Usd> {
        let (_, price) = prices.find(model)?;
        Some(price.rate.price(self))
    }

    /// Returns the larger of two reports about one message, figure by figure: they only grow while the message is written.
    #[must_use]
    pub fn at_least(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.at_least(other.tokens),
            long_cache_writes: self.long_cache_writes.max(other.long_cache_writes),
            web_searches: self.web_searches.max(other.web_searches),
            // A report that names no tier has the standard one, so the standard tier replaces no other.
            tier: match other.tier {
                ServiceTier::Standard => self.tier,
                tier => tier,
            },
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

    // covers: AGENT-34
    #[test]
    fn a_tier_costs_a_multiple_and_one_without_a_known_price_makes_a_lower_bound() {
        let prices = Prices::listed();
        let at = |model: &str, tier: ServiceTier| {
            let billed = Billed {
                tokens: TokenUsage {
                    input_tokens: 1_000,
                    output_tokens: 1_000,
                    ..TokenUsage::ZERO
                },
                web_searches: 1,
                tier,
                ..Billed::default()
            };
            let priced = billed.priced(model, &prices);
            (priced.cost.as_nanos() / 1_000, priced.is_whole)
        };
        // $5 in and $30 out a million, and a cent for the search, which has no tier.
        assert_eq!(at("gpt-5.5", ServiceTier::Standard), (45_000, true));
        assert_eq!(at("gpt-5.5", ServiceTier::Priority), (97_500, true));
        assert_eq!(at("gpt-5.5", ServiceTier::Flex), (27_500, true));
        assert_eq!(at("gpt-5.5", ServiceTier::Other), (45_000, false));
        assert_eq!(at("gpt-5.1-codex", ServiceTier::Priority), (21_250, false));
        assert_eq!(at("somebody's model", ServiceTier::Standard), (0, false));
    }

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
