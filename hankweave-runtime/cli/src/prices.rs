//! `hankweave prices`: shows the prices by which the tokens of each model are charged.

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use hankweave_core::cost::Usd;
use hankweave_core::cost::pricing::{ModelRate, Price, Prices, is_alias, model_of_alias};
use hankweave_core::hank::{PriceFile, PriceSource, Severity, nearest_models};
use hankweave_runtime::hank_files::{RefError, read_named};
use hankweave_runtime::world::disk::{PathError, RealDisk};
use serde_json::{Map, Value, json};

use crate::args::{Global, PricesArgs};
use crate::config::{resolve, with_prices};
use crate::settings::{Configuration, Flags};
use crate::terminal::exit::{CliError, CliErrorKind};
use crate::terminal::output;

/// Shows the prices of models and the source of each: those that `run` would use in this folder with the same `--prices`.
pub(crate) fn prices(global: &Global, args: &PricesArgs) -> Result<ExitCode, CliError> {
    let flags = with_prices(Flags::new(), args.prices.as_deref())?;
    let prices = effective_prices(&resolve(None, &flags)?)?;
    match &args.model {
        Some(model) => print_model(global, &prices, model),
        None if global.json() => output::print_json(&list_json(&prices)),
        None => {
            output::print_lines(list_text(&prices))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Returns the list prices, overridden by the prices in the settings.
pub(crate) fn effective_prices(configuration: &Configuration) -> Result<Arc<Prices>, CliError> {
    match configuration.prices() {
        None => Ok(Prices::listed()),
        Some(PriceSource::Models { models }) => {
            let given = models.iter().map(|(model, rate)| (model.clone(), *rate));
            Ok(Arc::new(Prices::default().with(given, "hankweave.json")))
        }
        Some(PriceSource::File(path)) => {
            let file = read(path)?;
            Ok(Arc::new(Prices::default().with(file.models, path)))
        }
    }
}

/// Reads a file of prices and reports every mistake in it.
fn read(path: &str) -> Result<PriceFile, CliError> {
    let bytes = read_named(&RealDisk, Path::new(path)).map_err(|error| {
        let kind = match error.is_of_the_system() {
            true => CliErrorKind::Io,
            false => CliErrorKind::Input,
        };
        let what = match &error {
            RefError::Path(PathError::Io(source)) => format!("the prices `{path}` {error}: {source}"),
            _ => format!("the prices `{path}` {error}"),
        };
        CliError::new(kind, what).hint(HINT)
    })?;
    let text = String::from_utf8_lossy(&bytes);
    let file = PriceFile::parse(&text);
    match file
        .problems
        .iter()
        .any(|problem| problem.level == Severity::Error)
    {
        false => Ok(file),
        true => {
            let problems = file.problems.display_in(path);
            let message = format!("the prices cannot be used\n{}", problems.trim_end());
            Err(CliError::new(CliErrorKind::Input, message).hint(HINT))
        }
    }
}

/// Hint for a file of prices that cannot be used.
const HINT: &str = r#"nothing was written; such a file holds {"models": {"NAME": {"input": 3, "output": 15}}}, in dollars per million tokens"#;

/// Prints the price of a model; an alias such as `sonnet` has none, since the agent chooses its model.
fn print_model(global: &Global, prices: &Prices, model: &str) -> Result<ExitCode, CliError> {
    let found = prices.find(model);
    if found.is_none() && !is_alias(model) {
        let near = nearest_models(model, prices);
        let message = format!("no price is known for `{}`", model);
        let hint = match near.as_slice() {
            [] => "`hankweave prices` lists all; `--prices FILE` adds one".to_owned(),
            near => format!("near it are {}; `--prices FILE` adds one", near.join(", ")),
        };
        return Err(CliError::new(CliErrorKind::Failed, message).hint(hint));
    }
    if global.json() {
        let document = json!({
            "asOf": prices.as_of(),
            "model": model,
            "alias": found.is_none(),
            "family": found.map(|(family, _)| family),
            "price": found.map(|(_, price)| price_json(price)),
        });
        return output::print_json(&document);
    }
    let text = match found {
        None => format!(
            "{model}: claude chooses the model and says which at its start; that one is priced{}\n",
            model_of_alias(model).map_or_else(String::new, |newest| format!(
                ", and {newest} where the scripted agent works"
            ))
        ),
        Some((family, price)) => {
            let mut text = String::new();
            if family != model {
                // Writing to a String cannot fail.
                let _ = writeln!(text, "{}: priced as {}", model, family);
            }
            let _ = write!(text, "{}", table(prices, [(family, price)]));
            for (tier, multiple) in [("priority", price.rate.priority), ("flex", price.rate.flex)] {
                if let Some(multiple) = multiple {
                    let times = f64::from(multiple.thousandths()) / 1_000.0;
                    let _ = writeln!(text, "tier {tier}: {times} times these prices of tokens");
                }
            }
            text
        }
    };
    output::print_lines(text)?;
    Ok(ExitCode::SUCCESS)
}

fn list_text(prices: &Prices) -> String {
    table(prices, prices.iter())
}

const HEADS: [&str; 8] = [
    "MODEL",
    "INPUT",
    "OUTPUT",
    "CACHE WRITE",
    "FOR 1 H",
    "CACHE READ",
    "SEARCHES",
    "FROM",
];

fn table<'p>(prices: &Prices, rows: impl IntoIterator<Item = (&'p str, &'p Price)>) -> String {
    let mut cells = vec![HEADS.map(str::to_owned)];
    for (family, price) in rows {
        let ModelRate {
            rates,
            web_search,
            long_prompt,
            priority: _,
            flex: _,
            context_window: _,
        } = price.rate;
        let row = |name: String, rates: hankweave_core::cost::pricing::TokenRates| {
            [
                name,
                number(rates.input),
                number(rates.output),
                number(rates.cache_write),
                number(rates.cache_write_1h),
                number(rates.cache_read),
                number(web_search),
                source(price).to_owned(),
            ]
        };
        cells.push(row(family.to_owned(), rates));
        if let Some(long) = long_prompt {
            cells.push(row(format!("  above {} tokens", long.above_tokens), long.rates));
        }
    }
    let mut text = format!(
        "US dollars per million tokens, searches per 1000; list prices of {}\n",
        prices.as_of()
    );
    let width = |column: usize| {
        cells
            .iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or_default()
    };
    let widths: [usize; 8] = std::array::from_fn(width);
    for row in &cells {
        let mut line = format!("{:<width$}", row[0], width = widths[0]);
        for (cell, width) in row[1..7].iter().zip(&widths[1..7]) {
            // Writing to a String cannot fail.
            let _ = write!(line, "  {cell:>width$}");
        }
        let _ = writeln!(text, "{line}  {}", row[7]);
    }
    text
}

fn number(price: Usd) -> String {
    price.as_dollars().to_string()
}

/// Returns the file that sets the price, or `list` for the list price.
fn source(price: &Price) -> &str {
    price.given_by.as_deref().unwrap_or("list")
}

fn list_json(prices: &Prices) -> Value {
    let models: Map<String, Value> = prices
        .iter()
        .map(|(family, price)| (family.to_owned(), price_json(price)))
        .collect();
    json!({"asOf": prices.as_of(), "models": models})
}

fn price_json(price: &Price) -> Value {
    let mut json = serde_json::to_value(price.rate).unwrap_or_default();
    json["from"] = json!(source(price));
    json
}
