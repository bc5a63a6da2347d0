//! List prices of models: a small table that is checked in, for agents that report tokens but no money.

use super::{TokenUsage, Usd};

/// What `tokens` cost at the list price of `model`, or `None` for a model that the table does not know.
///
/// `model` is the name an agent reports: a family such as `claude-sonnet-4-5`, with or without a provider before a
/// slash, a release date, `-latest` or a note in brackets behind it (`anthropic/claude-sonnet-4-5-20250929[1m]`).
#[must_use]
pub fn price(model: &str, tokens: &TokenUsage) -> Option<Usd> {
    Some(rate_of(model)?.price(tokens))
}

/// Whether the price of `model` is known, as an agent reports it or by the short name that claude takes for its newest model of a family.
#[must_use]
pub fn is_known(model: &str) -> bool {
    let short = model.split('[').next().unwrap_or(model);
    ["opus", "sonnet", "haiku"].contains(&short) || rate_of(model).is_some()
}

/// Prices of one family in billionths of a dollar per token; 1000 of them are one dollar per million tokens.
struct Rate {
    family: &'static str,
    input: u64,
    output: u64,
    cache_write: u64,
    cache_read: u64,
}

impl Rate {
    fn price(&self, tokens: &TokenUsage) -> Usd {
        Usd::from_nanos(self.input).times(tokens.input_tokens)
            + Usd::from_nanos(self.output).times(tokens.output_tokens)
            + Usd::from_nanos(self.cache_write).times(tokens.cache_creation_tokens)
            + Usd::from_nanos(self.cache_read).times(tokens.cache_read_tokens)
    }
}

const fn rate(family: &'static str, input: u64, output: u64, cache_write: u64, cache_read: u64) -> Rate {
    Rate {
        family,
        input,
        output,
        cache_write,
        cache_read,
    }
}

/// Cache writes are those that live five minutes. A provider that does not charge for them has its input price there.
const RATES: &[Rate] = &[
    rate("claude-opus-4-6", 5_000, 25_000, 6_250, 500),
    rate("claude-opus-4-5", 5_000, 25_000, 6_250, 500),
    rate("claude-opus-4-1", 15_000, 75_000, 18_750, 1_500),
    rate("claude-opus-4", 15_000, 75_000, 18_750, 1_500),
    rate("claude-sonnet-4-6", 3_000, 15_000, 3_750, 300),
    rate("claude-sonnet-4-5", 3_000, 15_000, 3_750, 300),
    rate("claude-sonnet-4", 3_000, 15_000, 3_750, 300),
    rate("claude-3-7-sonnet", 3_000, 15_000, 3_750, 300),
    rate("claude-3-5-sonnet", 3_000, 15_000, 3_750, 300),
    rate("claude-haiku-4-5", 1_000, 5_000, 1_250, 100),
    rate("claude-3-5-haiku", 800, 4_000, 1_000, 80),
    rate("claude-3-haiku", 250, 1_250, 300, 30),
    rate("gpt-5.1-codex", 1_250, 10_000, 1_250, 125),
    rate("gpt-5.1", 1_250, 10_000, 1_250, 125),
    rate("gpt-5-codex", 1_250, 10_000, 1_250, 125),
    rate("gpt-5-mini", 250, 2_000, 250, 25),
    rate("gpt-5", 1_250, 10_000, 1_250, 125),
    rate("gemini-2.5-pro", 1_250, 10_000, 1_250, 125),
    rate("gemini-2.5-flash", 300, 2_500, 300, 30),
];

fn rate_of(model: &str) -> Option<&'static Rate> {
    let name = model.rsplit('/').next().unwrap_or(model);
    let name = name.split('[').next().unwrap_or(name);
    RATES
        .iter()
        .find(|rate| name.strip_prefix(rate.family).is_some_and(is_release))
}

/// Whether `rest`, the part behind a family, names a release of that family and not another family.
fn is_release(rest: &str) -> bool {
    let date = |text: &str| text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_digit());
    rest.is_empty()
        || rest == "-latest"
        || rest.strip_prefix('-').is_some_and(date)
        || rest.strip_prefix('@').is_some_and(date)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKENS: TokenUsage = TokenUsage {
        input_tokens: 1_200,
        output_tokens: 37,
        cache_creation_tokens: 500,
        cache_read_tokens: 3_000,
    };

    #[test]
    fn the_list_price_is_the_one_that_claude_itself_computes() {
        assert_eq!(price("claude-sonnet-4-5", &TOKENS), Some(Usd::from_micros(6_930)));
    }

    #[test]
    fn dated_and_prefixed_names_belong_to_their_family() {
        for name in [
            "claude-sonnet-4-5-20250929",
            "anthropic/claude-sonnet-4-5",
            "claude-sonnet-4-5[1m]",
            "claude-sonnet-4-5@20250929",
        ] {
            assert_eq!(price(name, &TOKENS), Some(Usd::from_micros(6_930)), "{name}");
        }
        assert_ne!(
            price("claude-opus-4-5", &TOKENS),
            price("claude-opus-4-20250514", &TOKENS)
        );
    }

    #[test]
    fn an_unknown_model_has_no_price() {
        for name in [
            "",
            "<synthetic>",
            "claude-sonnet-9",
            "gpt-5-nano",
            "claude-sonnet-4-5-mini",
        ] {
            assert_eq!(price(name, &TOKENS), None, "{name}");
        }
    }
}
