//! Prices of models, for agents that report tokens but no money.
//!
//! The list prices are in one dated file, `prices.json` of this crate. A price that the user sets for a model ("given") comes before the list price.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};

use super::{Billed, ServiceTier, TierMultiple, TokenUsage, Usd};

/// Returns the list price of `tokens` for `model`, or `None` for a model that the list does not know.
///
/// `model` is the name an agent reports, see [`Prices::find`]. `tokens` are those of one request: some models
/// charge more for a long prompt.
#[must_use]
pub fn price(model: &str, tokens: &TokenUsage) -> Option<Usd> {
    Billed::from(*tokens).price(model, &LISTED)
}

/// Names for which claude itself chooses a model. Claude reports the chosen model at its start, and the price of that model counts.
pub const ALIASES: [&str; 7] = ["best", "default", "fable", "haiku", "opus", "opusplan", "sonnet"];

/// Whether `model` is a name that claude resolves itself, with or without a note in brackets (`opus[1m]`).
#[must_use]
pub fn is_alias(model: &str) -> bool {
    ALIASES.contains(&without_note(model))
}

/// Returns the model that an alias means where no agent chooses one: the newest model of its family in the list, as claude would choose.
#[must_use]
pub fn model_of_alias(model: &str) -> Option<&'static str> {
    let family = match without_note(model) {
        "haiku" => "claude-haiku-",
        "fable" => "claude-fable-",
        "best" | "opus" | "opusplan" => "claude-opus-",
        "default" | "sonnet" => "claude-sonnet-",
        _ => return None,
    };
    let version = |name: &str| -> Option<Vec<u32>> {
        let parts = name.strip_prefix(family)?.split('-');
        parts.map(|part| part.parse().ok()).collect()
    };
    let listed = LISTED.models.keys();
    let versions = listed.filter_map(|name| Some((version(name)?, name.as_str())));
    versions.max().map(|(_, name)| name)
}

/// Prices of tokens, in dollars per million.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TokenRates {
    /// Input price.
    pub input: Usd,
    /// Output price.
    pub output: Usd,
    /// Price of writing to a cache that lives five minutes. For a provider without a charge for it, the input
    /// price.
    pub cache_write: Usd,
    /// Price of writing to a cache that lives one hour (AGENT-34).
    pub cache_write_1h: Usd,
    /// Price of reading from a cache.
    pub cache_read: Usd,
}

/// Price of a request with a long prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LongPrompt {
    /// A prompt of more tokens than this, caches included, is a long one.
    pub above_tokens: u64,
    /// Price of every token of such a request.
    #[serde(flatten)]
    pub rates: TokenRates,
}

/// Price of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelRate {
    /// Prices of its tokens.
    #[serde(flatten)]
    pub rates: TokenRates,
    /// Price of 1,000 web searches by the provider.
    #[serde(default)]
    pub web_search: Usd,
    /// Other prices for long prompts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub long_prompt: Option<LongPrompt>,
    /// Price of the tokens of a request of the tier `priority`, as a multiple of the standard price, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<TierMultiple>,
    /// Price of the tokens of a request of the tier `flex`, as a multiple of the standard price, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flex: Option<TierMultiple>,
    /// Number of tokens that fit into the context, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
}

impl ModelRate {
    /// Returns the price of one request.
    #[must_use]
    pub fn price(&self, billed: &Billed) -> Usd {
        let tokens = &billed.tokens;
        let prompt = tokens.total().saturating_sub(tokens.output_tokens);
        let rates = match &self.long_prompt {
            Some(long) if prompt > long.above_tokens => &long.rates,
            _ => &self.rates,
        };
        let one_hour = billed.long_cache_writes.min(tokens.cache_creation_tokens);
        let parts = [
            (rates.input, tokens.input_tokens),
            (rates.output, tokens.output_tokens),
            (rates.cache_write, tokens.cache_creation_tokens - one_hour),
            (rates.cache_write_1h, one_hour),
            (rates.cache_read, tokens.cache_read_tokens),
        ];
        // Searches are priced by the thousand, tokens by the million.
        let searches = (self.web_search, billed.web_searches.saturating_mul(1_000));
        per_million(parts, self.multiple(billed.tier), searches)
    }

    /// Returns the price of a token in this tier, as a multiple of the standard price.
    fn multiple(&self, tier: ServiceTier) -> TierMultiple {
        let multiple = match tier {
            ServiceTier::Priority => self.priority,
            ServiceTier::Flex => self.flex,
            ServiceTier::Standard | ServiceTier::Other => None,
        };
        multiple.unwrap_or(TierMultiple::ONE)
    }

    /// Returns whether a request of this tier costs at most [`Self::price`].
    #[must_use]
    pub fn is_known_in(&self, tier: ServiceTier) -> bool {
        match tier {
            // Flex is never dearer than the standard, so its price is no more than that.
            ServiceTier::Standard | ServiceTier::Flex => true,
            ServiceTier::Priority => self.priority.is_some(),
            ServiceTier::Other => false,
        }
    }

    /// Returns the least cost of several requests of which only the sum of tokens is known, and whether they may have cost more: a single one may have
    /// had a long prompt.
    #[must_use]
    pub fn price_of_several(&self, billed: &Billed) -> (Usd, bool) {
        let short = Self {
            long_prompt: None,
            ..*self
        };
        let prompts = billed.tokens.total().saturating_sub(billed.tokens.output_tokens);
        let may_be_long = self.long_prompt.is_some_and(|long| prompts > long.above_tokens);
        (short.price(billed), may_be_long)
    }
}

/// Returns the sum of all `parts` at their prices per million, times `multiple`, plus that of `searches`, rounded once to the nearest billionth of a
/// dollar. Each pair is a price and a count.
fn per_million(
    parts: impl IntoIterator<Item = (Usd, u64)>,
    multiple: TierMultiple,
    searches: (Usd, u64),
) -> Usd {
    // The prices are per million, and the multiple counts thousandths.
    const MILLION_THOUSANDTHS: u128 = 1_000_000_000;
    let product = |(price, count): (Usd, u64)| u128::from(price.as_nanos()) * u128::from(count);
    let sum = parts.into_iter().map(product).fold(0_u128, u128::saturating_add);
    let sum = sum.saturating_mul(u128::from(multiple.thousandths()));
    let sum = sum.saturating_add(product(searches).saturating_mul(1_000));
    let nanos = sum.saturating_add(MILLION_THOUSANDTHS / 2) / MILLION_THOUSANDTHS;
    Usd::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// The price of a model, and its source.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Price {
    /// Price.
    pub rate: ModelRate,
    /// The source that overrides the list; `None` for a list price.
    pub given_by: Option<Arc<str>>,
}

/// All known prices, by the name of the model's family, such as `claude-sonnet-4-5`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prices {
    as_of: Arc<str>,
    models: BTreeMap<String, Price>,
}

/// The file with the list prices.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PriceListFile {
    as_of: Arc<str>,
    models: BTreeMap<String, ModelRate>,
}

static LISTED: LazyLock<Arc<Prices>> = LazyLock::new(|| {
    // The file is part of the program, and a test reads it, so the default is never used.
    let list = serde_json::from_str(include_str!("../../prices.json")).unwrap_or(PriceListFile {
        as_of: "".into(),
        models: BTreeMap::new(),
    });
    Arc::new(Prices::of(&list.as_of, list.models))
});

impl Default for Prices {
    fn default() -> Self {
        (**LISTED).clone()
    }
}

impl Prices {
    /// The list prices.
    #[must_use]
    pub fn listed() -> Arc<Self> {
        LISTED.clone()
    }

    /// Returns the prices of these `models` alone, looked up on the day `as_of`.
    #[must_use]
    pub fn of(as_of: &str, models: impl IntoIterator<Item = (String, ModelRate)>) -> Self {
        let listed = |(model, rate)| (model, Price { rate, given_by: None });
        Self {
            as_of: as_of.into(),
            models: models.into_iter().map(listed).collect(),
        }
    }

    /// Overrides the list with the prices of `models` from the source `given_by`.
    #[must_use]
    pub fn with(mut self, models: impl IntoIterator<Item = (String, ModelRate)>, given_by: &str) -> Self {
        let given_by: Arc<str> = given_by.into();
        self.models.extend(models.into_iter().map(|(model, rate)| {
            let given_by = Some(given_by.clone());
            (model, Price { rate, given_by })
        }));
        self
    }

    /// Returns the day on which the list prices were looked up, such as `2026-11-23`.
    #[must_use]
    pub fn as_of(&self) -> &str {
        &self.as_of
    }

    /// Returns all families with their prices, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Price)> {
        self.models.iter().map(|(family, price)| (family.as_str(), price))
    }

    /// Returns the prices that override the list.
    pub fn given(&self) -> impl Iterator<Item = (&str, ModelRate)> {
        let given = self.iter().filter(|(_, price)| price.given_by.is_some());
        given.map(|(family, price)| (family, price.rate))
    }

    /// Returns the price of `model`, and the name under which it is listed. A price that the user has given comes before one of the list, whichever of
    /// the forms below has it.
    ///
    /// `model` is the name that an agent reports. It may be the name of the list, or have in addition a provider before a slash or dot, a release after
    /// the name, a note in brackets (`anthropic/claude-sonnet-4-5-20250929[1m]`, `us.anthropic.claude-haiku-4-5-20251001-v1:0`), or dots in the version
    /// (`anthropic/claude-sonnet-4.5`, as OpenRouter writes it). It may also lack the provider with which the user has given the price.
    #[must_use]
    pub fn find(&self, model: &str) -> Option<(&str, &Price)> {
        let unnoted = without_note(model);
        let own = own_name(unnoted);
        let dashed = own.replace('.', "-");
        let names = [model, unnoted, own, family(own), &dashed, family(&dashed)];
        let found = || names.iter().filter_map(|name| self.models.get_key_value(*name));
        let given = found().find(|(_, price)| price.given_by.is_some());
        let found = given.or_else(|| found().next());
        let (name, price) = found.or_else(|| self.given_with_provider(own))?;
        Some((name, price))
    }

    /// Returns the price that the user has given for this name with a provider in front; `None` also if several providers have different prices.
    fn given_with_provider(&self, own: &str) -> Option<(&String, &Price)> {
        let is_it = |name: &str| name.rsplit_once('/').is_some_and(|(_, behind)| behind == own);
        let mut found = (self.models.iter()).filter(|(name, price)| price.given_by.is_some() && is_it(name));
        let first = found.next()?;
        found
            .all(|(_, price)| price.rate == first.1.rate)
            .then_some(first)
    }

    /// Returns the price of `model` if the user has given one; it counts before any cost that an agent reports.
    #[must_use]
    pub fn given_for(&self, model: &str) -> Option<ModelRate> {
        let (_, price) = self.find(model)?;
        price.given_by.as_ref().map(|_| price.rate)
    }

    /// Returns the number of tokens that fit into the context of `model`, if known. The note `[1m]` means a million.
    #[must_use]
    pub fn context_window(&self, model: &str) -> Option<u64> {
        match model.to_ascii_lowercase().ends_with("[1m]") {
            true => Some(1_000_000),
            false => self.find(model)?.1.rate.context_window,
        }
    }

    /// Whether the cost of `model` can be counted: its price is known, or it is an alias for which claude reports the model that it chose.
    #[must_use]
    pub fn is_known(&self, model: &str) -> bool {
        is_alias(model) || self.find(model).is_some()
    }
}

/// Removes a note in brackets, which is a size of context and does not change the price.
fn without_note(model: &str) -> &str {
    model.split('[').next().unwrap_or(model)
}

/// Removes the provider from a name.
fn own_name(name: &str) -> &str {
    let own = name.rsplit('/').next().unwrap_or(name);
    own.rsplit_once("anthropic.").map_or(own, |(_, own)| own)
}

/// Removes the release at the end of a name: `-20250929`, `@20250929`, `-2025-08-07` or `-latest`, each with or without `-v1:0`.
fn family(name: &str) -> &str {
    let digits = |text: &str, count| text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_day = |text: &str| {
        let mut parts = text.split('-');
        let part = |text: Option<&str>, count| text.is_some_and(|text| digits(text, count));
        part(parts.next(), 4) && part(parts.next(), 2) && part(parts.next(), 2)
    };
    let is_version = |text: &str| {
        let parts = text.split_once(':').unwrap_or((text, "0"));
        digits(parts.0, 1) && digits(parts.1, 1)
    };
    let unversioned = match name.rsplit_once("-v") {
        Some((before, version)) if is_version(version) => before,
        _ => name,
    };
    // A day with its dash has eleven characters, all of one byte.
    let day = unversioned
        .len()
        .checked_sub(11)
        .and_then(|at| unversioned.split_at_checked(at));
    if let Some((family, day)) = day
        && day.strip_prefix('-').is_some_and(is_day)
    {
        return family;
    }
    match unversioned.rsplit_once(['-', '@']) {
        Some((family, release)) if release == "latest" || digits(release, 8) => family,
        _ => unversioned,
    }
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
        assert_eq!(price("claude-opus-5", &TOKENS), Some(Usd::from_micros(11_550)));
        assert_eq!(price("claude-sonnet-5", &TOKENS), Some(Usd::from_micros(4_620)));
        assert_eq!(price("claude-opus-4-7", &TOKENS), price("claude-opus-5", &TOKENS));
    }

    #[test]
    fn the_list_is_dated_and_complete() {
        let prices = Prices::listed();
        assert_eq!(prices.as_of().len(), 10);
        assert!(prices.iter().count() > 50);
        for (family, Price { rate, given_by }) in prices.iter() {
            let rates = rate.rates;
            let in_order = [
                Usd::ZERO,
                rates.cache_read,
                rates.input,
                rates.cache_write,
                rates.cache_write_1h,
                rates.output,
            ];
            assert!(
                in_order.is_sorted() && rates.cache_read <= rates.input,
                "{family}"
            );
            assert!(given_by.is_none());
            if family.starts_with("claude-") {
                assert_eq!(rates.cache_write_1h, rates.input.times(2), "{family}");
                assert_eq!(rate.web_search, Usd::from_micros(10_000_000), "{family}");
            }
        }
    }

    #[test]
    fn dated_and_prefixed_names_belong_to_their_family() {
        for name in [
            "claude-sonnet-4-5-20250929",
            "anthropic/claude-sonnet-4-5",
            "anthropic/claude-sonnet-4-5-20250929[1m]",
            "anthropic/claude-sonnet-4.5",
            "openrouter/anthropic/claude-sonnet-4.5",
            "claude-sonnet-4-5[1m]",
            "claude-sonnet-4-5@20250929",
            "claude-sonnet-4-5-latest",
            "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
            "claude-sonnet-4-5-2025-09-29",
        ] {
            assert_eq!(price(name, &TOKENS), Some(Usd::from_micros(6_930)), "{name}");
            assert_eq!(
                Prices::listed().find(name).map(|found| found.0),
                Some("claude-sonnet-4-5")
            );
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
            "gpt-5-pico",
            "claude-sonnet-4-5-mini",
            "claude-sonnet-4-5-v12",
        ] {
            assert_eq!(price(name, &TOKENS), None, "{name}");
        }
    }

    #[test]
    fn an_alias_is_known_and_has_no_price_of_its_own() {
        let prices = Prices::listed();
        for name in ["opus", "sonnet[1m]", "default", "haiku"] {
            assert!(prices.is_known(name) && prices.find(name).is_none(), "{name}");
        }
        assert!(!prices.is_known("opusculum"));
    }

    #[test]
    fn each_alias_stands_for_a_model_of_the_list() {
        for alias in ALIASES {
            let model = model_of_alias(alias).unwrap();
            assert!(Prices::listed().find(model).is_some(), "{alias}: {model}");
        }
        assert_eq!(model_of_alias("opus[1m]"), model_of_alias("best"));
        assert_eq!(model_of_alias("house-model"), None);
    }

    #[test]
    fn the_window_of_a_context_is_in_the_list_or_in_the_name() {
        let window = |model| LISTED.context_window(model);
        assert_eq!(window("claude-sonnet-4-5-20250929"), Some(200_000));
        assert_eq!(window("claude-sonnet-4-5[1m]"), Some(1_000_000));
        assert_eq!(window("claude-opus-5"), Some(1_000_000));
        assert_eq!(window("openai/gpt-5.3-codex"), Some(400_000));
        assert_eq!(window("gemini-2.5-pro"), Some(1_048_576));
        assert_eq!(
            (window("opus[1m]"), window("house-model")),
            (Some(1_000_000), None)
        );
    }

    #[test]
    fn caches_of_an_hour_and_searches_have_their_own_prices() {
        let (_, opus) = LISTED.find("claude-opus-5").unwrap();
        let billed = Billed {
            tokens: TOKENS,
            long_cache_writes: 200,
            web_searches: 3,
            ..Billed::default()
        };
        // 200 tokens at $10 instead of $6.25 a million, and three searches at a cent.
        let more = Usd::from_nanos(750_000) + Usd::from_micros(30_000);
        let price = opus.rate.price(&TOKENS.into()) + more;
        assert_eq!(opus.rate.price(&billed), price);
        let absurd = Billed {
            tokens: TOKENS,
            long_cache_writes: u64::MAX,
            web_searches: u64::MAX,
            ..Billed::default()
        };
        assert!(opus.rate.price(&absurd) > price);
    }

    #[test]
    fn a_long_prompt_costs_more_with_all_its_tokens() {
        let tokens = |cached| TokenUsage {
            input_tokens: 60_000,
            output_tokens: 1_000,
            cache_read_tokens: cached,
            ..TokenUsage::ZERO
        };
        let short = Usd::from_micros(6_000 + 500 + 400);
        assert_eq!(price("claude-haiku-5-5", &tokens(40_000)), Some(short));
        let long = Usd::from_micros(30_000 + 2_500 + 2_000) + Usd::from_nanos(50);
        assert_eq!(price("claude-haiku-5-5", &tokens(40_001)), Some(long));
    }

    #[test]
    fn a_price_that_is_laid_over_the_list_wins_for_its_model_alone() {
        let (_, sonnet) = LISTED.find("claude-sonnet-5").unwrap();
        let models = ["house-model", "claude-opus-5"].map(|model| (model.to_owned(), sonnet.rate));
        let prices = Prices::default().with(models, "prices.json");
        for name in ["house-model", "house-model-20260101", "claude-opus-5[1m]"] {
            let (_, price) = prices.find(name).unwrap();
            assert_eq!(price.given_by.as_deref(), Some("prices.json"), "{name}");
            let price = Billed::from(TOKENS).price(name, &prices);
            assert_eq!(price, price_of_sonnet(), "{name}");
        }
        assert_eq!(
            Billed::from(TOKENS).price("claude-opus-4-7", &prices),
            price("claude-opus-4-7", &TOKENS)
        );
    }

    #[test]
    fn what_openai_and_google_call_their_models_is_listed() {
        for (name, input, output) in [
            ("gpt-5.4-2026-03-05", 2_500, 15_000),
            ("openai/gpt-5-2025-08-07", 1_250, 10_000),
            ("gpt-4o", 2_500, 10_000),
            ("gpt-4o-2024-05-13", 5_000, 15_000),
            ("o3", 2_000, 8_000),
            ("o4-mini-2025-04-16", 1_100, 4_400),
            ("gpt-5.3-codex-spark", 1_750, 14_000),
            ("gemini-3-flash-preview", 500, 3_000),
            ("google/gemini-3.1-pro-preview", 2_000, 12_000),
        ] {
            let (_, found) = LISTED.find(name).unwrap_or_else(|| panic!("{name}"));
            let rates = found.rate.rates;
            assert_eq!(
                (rates.input, rates.output),
                (Usd::from_micros(input * 1_000), Usd::from_micros(output * 1_000)),
                "{name}"
            );
        }
        // What is written to the cache costs a quarter more than what is read, from 5.6 on.
        let (_, sol) = LISTED.find("gpt-5.6-sol").unwrap();
        assert_eq!(sol.rate.rates.cache_write, Usd::from_micros(5_000_000));
    }

    #[test]
    fn a_price_that_was_given_with_a_provider_counts_for_an_agent_that_leaves_it_out() {
        let rate = |name: &str| LISTED.find(name).unwrap().1.rate;
        let (dear, cheap) = (rate("claude-opus-5"), rate("claude-sonnet-5"));
        let with = |models: &[(&str, ModelRate)]| {
            let models = models.iter().map(|(name, rate)| ((*name).to_owned(), *rate));
            Prices::default().with(models, "mine.json")
        };
        let one = with(&[("scripted/house-model", dear)]);
        for name in ["scripted/house-model", "house-model"] {
            assert_eq!(one.given_for(name), Some(dear), "{name}");
        }
        let two = with(&[("a/house-model", dear), ("b/house-model", cheap)]);
        assert_eq!(two.given_for("b/house-model"), Some(cheap));
        assert_eq!(two.find("house-model"), None, "nobody knows which");
        // One that is given comes before one of the list with a nearer name.
        let own = with(&[("gpt-4o", cheap)]);
        assert_eq!(own.given_for("gpt-4o-2024-05-13"), Some(cheap));
        assert_eq!(own.given_for("claude-opus-5"), None);
    }

    fn price_of_sonnet() -> Option<Usd> {
        price("claude-sonnet-5", &TOKENS)
    }
}
