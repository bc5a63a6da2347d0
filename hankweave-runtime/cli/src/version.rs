//! `hankweave --version --verbose` (CLI-70): prints how this program was built, and the versions of its formats.

use std::process::ExitCode;

use hankweave_core::time::Timestamp;
use hankweave_core::{document, wire};
use hankweave_tasks::{Postgres, Sqlite};
use serde_json::json;

use crate::args::VersionRequest;
use crate::terminal::exit::CliError;
use crate::terminal::output;

/// Features that this program was built with.
const FEATURES: [(&str, bool); 3] = [
    ("mcp", cfg!(feature = "mcp")),
    ("otel", cfg!(feature = "otel")),
    ("restate", cfg!(feature = "restate")),
];

/// Formats on disk and on the wire, with their versions.
const FORMATS: [(&str, u64); 6] = [
    ("state", document::FORMAT),
    ("journal", wire::JOURNAL_FORMAT),
    ("protocol", wire::FORMAT),
    ("sqlite registry", Sqlite::FORMAT as u64),
    ("postgres registry", Postgres::FORMAT as u64),
    ("remote", hankweave_remote::FORMAT),
];

/// Prints version, commit, date, target, features and formats.
pub(crate) fn print(request: &VersionRequest) -> Result<ExitCode, CliError> {
    let version = env!("CARGO_PKG_VERSION");
    let commit = option_env!("HANKWEAVE_BUILD_COMMIT");
    let date = option_env!("HANKWEAVE_BUILD_SECONDS").and_then(date);
    let target = option_env!("HANKWEAVE_BUILD_TARGET");
    let features = FEATURES.iter().filter(|(_, is_on)| *is_on);
    let features: Vec<&str> = features.map(|(name, _)| *name).collect();
    if request.is_json {
        let formats: serde_json::Map<_, _> = FORMATS
            .iter()
            .map(|(name, format)| ((*name).to_owned(), json!(format)))
            .collect();
        return output::print_json(&json!({
            "version": version, "commit": commit, "date": date, "target": target, "features": features, "formats": formats,
        }));
    }
    let formats = FORMATS.map(|(name, format)| format!("{name} {format}"));
    output::print(format!(
        "hankweave {version}\ncommit:   {}\ndate:     {}\ntarget:   {}\nfeatures: {}\nformats:  {}\n",
        commit.unwrap_or("unknown"),
        date.as_deref().unwrap_or("unknown"),
        target.unwrap_or("unknown"),
        features.join(", "),
        formats.join(", "),
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the day of a time in seconds, as `2026-11-26`.
fn date(seconds: &str) -> Option<String> {
    let milliseconds = seconds.parse::<i64>().ok()?.checked_mul(1_000)?;
    let moment = Timestamp::from_millis(milliseconds).to_string();
    Some(moment.split('T').next()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_the_day_of_the_seconds() {
        assert_eq!(date("0").as_deref(), Some("1970-01-01"));
        assert_eq!(date("1795651200").as_deref(), Some("2026-11-26"));
        assert_eq!(date("soon"), None);
    }
}
