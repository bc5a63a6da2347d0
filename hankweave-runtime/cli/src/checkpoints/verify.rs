//! `hankweave checkpoints verify`: reads every part of checkpoints and names damaged ones.

use std::fmt::Write;
use std::process::ExitCode;

use hankweave_core::id::CheckpointSha;
use hankweave_runtime::checkpoint::{Damage, DamageKind, GitHistory};
use serde::Serialize;
use serde_json::json;

use super::catalogue::{Catalogue, CheckpointRow};
use crate::args::Global;
use crate::terminal::exit::{CliError, CliErrorKind};
use crate::terminal::output;
use crate::terminal::screen::one_line;

/// Largest number of damaged parts of one checkpoint that are printed.
const SHOWN: usize = 10;

#[derive(Serialize)]
struct VerifyResult<'a> {
    sha: &'a CheckpointSha,
    whole: bool,
    damage: Vec<Damage>,
}

/// Reads every part of the checkpoints; exit code 1 when one of them could not be restored.
pub(super) fn verify(global: &Global, catalogue: &Catalogue, names: &[String]) -> Result<ExitCode, CliError> {
    let rows: Vec<&CheckpointRow> = if names.is_empty() {
        catalogue.rows.iter().collect()
    } else {
        names
            .iter()
            .map(|name| catalogue.find(name))
            .collect::<Result<_, _>>()?
    };
    let verdicts = if rows.is_empty() {
        Vec::new()
    } else {
        verify_rows(catalogue.history()?, &rows)?
    };
    let damaged = verdicts.iter().filter(|verdict| !verdict.whole).count();
    if global.json() {
        output::print_json(&json!({"checkpoints": verdicts, "damaged": damaged}))?;
    } else {
        output::print_lines(text(&verdicts, damaged))?;
    }
    Ok(ExitCode::from(u8::from(damaged > 0)))
}

fn verify_rows<'a>(
    history: &GitHistory,
    rows: &[&'a CheckpointRow],
) -> Result<Vec<VerifyResult<'a>>, CliError> {
    let shas: Vec<CheckpointSha> = rows.iter().map(|row| row.sha.clone()).collect();
    let found = history
        .inspect(&shas)
        .map_err(|error| CliError::from_error(CliErrorKind::Io, &error))?;
    let verdicts = rows.iter().zip(found).map(|(row, damage)| VerifyResult {
        sha: &row.sha,
        whole: damage.is_empty(),
        damage,
    });
    Ok(verdicts.collect())
}

fn text(verdicts: &[VerifyResult<'_>], damaged: usize) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    for VerifyResult { sha, whole, damage } in verdicts {
        let _ = writeln!(
            text,
            "{} {}",
            sha.short(),
            if *whole { "whole" } else { "DAMAGED" }
        );
        for Damage { path, object, kind } in damage.iter().take(SHOWN) {
            let kind = match kind {
                DamageKind::Missing => "missing",
                DamageKind::Corrupt => "corrupt",
            };
            let _ = match path {
                Some(path) => writeln!(text, "  {kind} {} (object {object})", one_line(path)),
                None => writeln!(text, "  {kind} (object {object})"),
            };
        }
        if damage.len() > SHOWN {
            let _ = writeln!(text, "  and {} more", damage.len() - SHOWN);
        }
    }
    let _ = writeln!(text, "{} checkpoints, {damaged} damaged", verdicts.len());
    text
}
