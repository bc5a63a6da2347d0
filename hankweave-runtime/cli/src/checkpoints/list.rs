//! `hankweave checkpoints list`: one line for each checkpoint, newest first.

use std::fmt::Write;
use std::process::ExitCode;

use serde_json::json;

use super::catalogue::{Catalogue, CheckpointRow};
use crate::args::Global;
use crate::terminal::exit::CliError;
use crate::terminal::output;
use crate::terminal::report::counted;
use crate::terminal::screen::{local_time, one_line};

pub(super) fn list(global: &Global, catalogue: &Catalogue) -> Result<ExitCode, CliError> {
    if global.json() {
        return output::print_json(&json!({"checkpoints": catalogue.rows}));
    }
    let mut text = String::new();
    if catalogue.rows.is_empty() {
        text.push_str("no checkpoint has been made yet\n");
    }
    for row in &catalogue.rows {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}", line(row));
    }
    output::print_lines(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the SHA, time, type, codon and run of a checkpoint, with a dash for each that is unknown, and what it lacks.
pub(super) fn line(row: &CheckpointRow) -> String {
    let time = row.timestamp.map_or_else(|| "-".to_owned(), local_time);
    let text = |text: &Option<String>| one_line(text.as_deref().unwrap_or("-"));
    let missing = if row.missing { "  MISSING" } else { "" };
    let without = match row.without.count {
        0 => String::new(),
        count => format!("  without {}", counted(count, "file")),
    };
    format!(
        "{}  {time:<12}  {:<9}  {:<16}  {}{missing}{without}",
        row.sha.short(),
        one_line(&row.kind),
        text(&row.codon_id),
        text(&row.run_id),
    )
}
