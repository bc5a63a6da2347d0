//! Reads prices that the user sets: a file of prices, or the value of `prices` in hankweave.json.

use std::collections::BTreeMap;

use jsonc_parser::ast::Value;
use serde::Serialize;

use super::keys::KeyTable;
use super::parse::read_with;
use super::paths::check_any;
use super::problem::{Problems, quoted};
use super::read::at_least_one;
use super::reader::{HankReader, JsonNode, ObjectFields, checked};
use crate::cost::TierMultiple;
use crate::cost::Usd;
use crate::cost::pricing::{LongPrompt, ModelRate, TokenRates};

/// Contents of a price file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PriceFile {
    /// Prices by the name of the model.
    pub models: BTreeMap<String, ModelRate>,
    /// Errors of the file.
    pub problems: Problems,
}

impl PriceFile {
    /// Reads the text of a file of prices, JSON with comments and trailing commas, and reports all problems at once.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let (reader, models) = read_with(text, HINT, models);
        Self {
            models: models.unwrap_or_default(),
            problems: reader.problems,
        }
    }
}

/// Value of the setting `prices`, serialised as in hankweave.json.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum PriceSource {
    /// The path of a file of prices.
    File(String),
    /// The prices themselves.
    Models {
        /// The prices, by the name of the model.
        models: BTreeMap<String, ModelRate>,
    },
}

/// Hint for a text without prices.
const HINT: &str = r#"write {"models": {"NAME": {"input": 3, "output": 15}}}, in dollars per million tokens"#;

/// Keys of a file of prices. `asOf`, `unit` and `sources` are not read: they are allowed so that the output of `hankweave prices --json` is such a file.
static PRICES: KeyTable = KeyTable {
    kind: "a file of prices",
    valid: "$schema asOf unit sources models",
    known_mistakes: &[("models", "prices model")],
};

/// Keys of the price of a model. `from` is not read, like `asOf` of [`PRICES`].
static RATE: KeyTable = KeyTable {
    kind: "a price",
    valid: "input output cacheWrite cacheWrite1h cacheRead webSearch longPrompt priority flex contextWindow from",
    known_mistakes: &[
        ("input", "inputTokens"),
        ("output", "outputTokens"),
        ("cacheWrite", "cacheWrite5m cacheCreation"),
        ("cacheRead", "cached"),
    ],
};

static LONG_PROMPT: KeyTable = KeyTable::new(
    "`longPrompt`",
    "aboveTokens input output cacheWrite cacheWrite1h cacheRead",
);

/// Default price of 1,000 web searches: that of Anthropic.
const DEFAULT_WEB_SEARCH: Usd = Usd::from_micros(10_000_000);

/// Reads the value of the setting `prices`.
pub(super) fn source(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<PriceSource> {
    match node.value {
        Value::StringLit(_) => checked(check_any)(reader, node).map(PriceSource::File),
        Value::Object(_) => models(reader, node).map(|models| PriceSource::Models { models }),
        _ => {
            let message = "must be the path of a file of prices, or the prices themselves";
            reader.refuse_with_hint(node, message, HINT)
        }
    }
}

fn models(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<BTreeMap<String, ModelRate>> {
    let fields = reader.fields(node, &PRICES)?;
    if fields.get("models").is_none() {
        fields.missing(reader, "models", Some(HINT));
    }
    fields.optional(reader, "models", |reader, node| reader.map(node, rate))
}

fn rate(reader: &mut HankReader<'_>, model: &str, node: &JsonNode<'_>) -> Option<ModelRate> {
    if model.is_empty() || model.chars().any(|c| c.is_control() || c.is_whitespace()) {
        reader.error(node, format!("{} is no name of a model", quoted(model)));
    }
    let fields = reader.fields(node, &RATE)?;
    let long_prompt = fields.optional(reader, "longPrompt", |reader, node| {
        let fields = reader.fields(node, &LONG_PROMPT)?;
        // Both are read before `?` leaves: all problems are reported at once.
        let above_tokens = fields.required(reader, "aboveTokens", at_least_one);
        let rates = token_rates(reader, &fields);
        Some(LongPrompt {
            above_tokens: above_tokens?,
            rates: rates?,
        })
    });
    let web_search = fields.optional(reader, "webSearch", amount);
    let [priority, flex] = ["priority", "flex"].map(|key| fields.optional(reader, key, multiple));
    let context_window = fields.optional(reader, "contextWindow", at_least_one);
    Some(ModelRate {
        rates: token_rates(reader, &fields)?,
        web_search: web_search.unwrap_or(DEFAULT_WEB_SEARCH),
        long_prompt,
        priority,
        flex,
        context_window,
    })
}

/// Reads the prices of tokens; missing ones follow from the input price in the proportions of Anthropic's prices.
fn token_rates(reader: &mut HankReader<'_>, fields: &ObjectFields<'_>) -> Option<TokenRates> {
    // Each price is read before `?` leaves: all problems are reported at once.
    let input = fields.required(reader, "input", amount);
    let output = fields.required(reader, "output", amount);
    let [write, write_1h, read] =
        ["cacheWrite", "cacheWrite1h", "cacheRead"].map(|key| fields.optional(reader, key, amount));
    let input = input?;
    let share = |percent: u64| Usd::from_nanos(input.times(percent).as_nanos() / 100);
    Some(TokenRates {
        input,
        output: output?,
        cache_write: write.unwrap_or_else(|| share(125)),
        cache_write_1h: write_1h.unwrap_or_else(|| share(200)),
        cache_read: read.unwrap_or_else(|| share(10)),
    })
}

/// Reads a multiple of the standard price.
fn multiple(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<TierMultiple> {
    let multiple = TierMultiple::new(reader.number(node)?);
    if multiple.is_none() {
        reader.error(node, "must be a number from 0 to 1000, times the standard price");
    }
    multiple
}

/// Reads an amount in dollars. 0 is allowed: a model may cost nothing.
fn amount(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<Usd> {
    const MAX: f64 = 1_000_000.0;
    let dollars = reader.number(node)?;
    match Usd::from_dollars(dollars) {
        Ok(amount) if dollars <= MAX => Some(amount),
        _ => reader.refuse(node, "must be a number of dollars from 0 to 1000000"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Billed;
    use crate::cost::TokenUsage;
    use crate::cost::pricing::Prices;

    #[test]
    fn what_a_price_leaves_out_follows_from_its_input() {
        let file = PriceFile::parse(
            r#"{ // mine
            "models": {"house-model": {"input": 4, "output": 20}, "free": {"input": 0, "output": 0},}}"#,
        );
        assert!(file.problems.is_empty(), "{:?}", file.problems);
        let dollars = |dollars| Usd::from_dollars(dollars).unwrap();
        let house = file.models["house-model"];
        assert_eq!(
            house.rates,
            TokenRates {
                input: dollars(4.0),
                output: dollars(20.0),
                cache_write: dollars(5.0),
                cache_write_1h: dollars(8.0),
                cache_read: dollars(0.4),
            }
        );
        assert_eq!((house.web_search, house.long_prompt), (dollars(10.0), None));
        let prices = Prices::default().with(file.models, "mine.json");
        let tokens = TokenUsage {
            output_tokens: 1_000,
            ..TokenUsage::ZERO
        };
        assert_eq!(
            Billed::from(tokens).price("house-model", &prices),
            Some(dollars(0.02))
        );
        assert_eq!(Billed::from(tokens).price("free", &prices), Some(Usd::ZERO));
    }

    #[test]
    fn every_problem_of_a_file_is_told_at_its_place() {
        let problems = |text: &str| -> Vec<String> {
            let file = PriceFile::parse(text);
            file.problems.iter().map(ToString::to_string).collect()
        };
        assert_eq!(
            problems(
                "{\"models\": {\"a\": {\"input\": -1, \"output\": \"x\", \"cacheCreation\": 1},\n \"b c\": {\"output\": 1e9, \"longPrompt\": {\"input\": 1}}}}"
            ),
            [
                "1:28: error: models.a.input: must be a number of dollars from 0 to 1000000",
                "1:42: error: models.a.output: must be a number, not a string",
                "1:47: error: models.a.cacheCreation: `cacheCreation` is not a key of a price\n  hint: write `cacheWrite`",
                "2:9: error: models[`b c`]: `b c` is no name of a model",
                "2:9: error: models[`b c`].input: is missing",
                "2:20: error: models[`b c`].output: must be a number of dollars from 0 to 1000000",
                "2:39: error: models[`b c`].longPrompt.aboveTokens: is missing",
                "2:39: error: models[`b c`].longPrompt.output: is missing",
            ]
        );
        assert!(problems("")[0].ends_with(HINT));
        assert!(problems("{}")[0].ends_with(HINT));
    }

    #[test]
    fn the_checked_in_list_is_a_file_of_prices() {
        let file = PriceFile::parse(include_str!("../../prices.json"));
        assert!(file.problems.is_empty(), "{:?}", file.problems);
        for (model, price) in Prices::listed().iter() {
            // A provider without a price for searches has none in the list.
            let rate = ModelRate {
                web_search: price.rate.web_search,
                ..file.models[model]
            };
            assert_eq!(rate, price.rate, "{model}");
        }
    }
}
