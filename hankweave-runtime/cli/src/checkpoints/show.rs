//! `hankweave checkpoints show` and `checkpoints diff`: names of changed files, without their contents.

use std::fmt::Write;
use std::process::ExitCode;

use hankweave_runtime::checkpoint::{ChangeKind, PathChange};
use serde_json::json;

use super::catalogue::Catalogue;
use super::{list, unreadable};
use crate::args::Global;
use crate::terminal::exit::CliError;
use crate::terminal::output;
use crate::terminal::screen::one_line;

pub(super) fn show(global: &Global, catalogue: &Catalogue, name: &str) -> Result<ExitCode, CliError> {
    let row = catalogue.find(name)?;
    let failed = |error| unreadable(catalogue, &row.sha, &error);
    let history = catalogue.history()?;
    let files = history.files(&row.sha).map_err(failed)?;
    // Compares a safety checkpoint with the checkpoint that was restored then, any other one with its parent. A cleanup may have removed those.
    let parent = match catalogue.restored_after(row).or(row.parent.as_ref()) {
        Some(parent) => history.contains(parent).map_err(failed)?.then_some(parent),
        None => None,
    };
    let changes = match parent {
        Some(parent) => Some(history.diff(parent, &row.sha).map_err(failed)?),
        None => None,
    };
    if global.json() {
        let mut document = json!(row);
        document["message"] = json!(row.message);
        document["files"] = json!(files);
        document["changes"] = json!(changes);
        return output::print_json(&document);
    }
    let mut text = format!("{}\n{}\n", row.sha, list::line(row));
    if let Some(parent) = parent {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{} files; against {}:", files.len(), parent.short());
        write_changes(&mut text, changes.as_deref().unwrap_or_default());
    } else {
        let _ = writeln!(text, "{} files", files.len());
    }
    if let Some(files) = row.without.words() {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "not in it: {files}");
    }
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn diff(
    global: &Global,
    catalogue: &Catalogue,
    from: &str,
    to: &str,
) -> Result<ExitCode, CliError> {
    let (from, to) = (catalogue.find(from)?, catalogue.find(to)?);
    let blamed = if from.missing { from } else { to };
    let changes = catalogue.history()?.diff(&from.sha, &to.sha);
    let changes = changes.map_err(|error| unreadable(catalogue, &blamed.sha, &error))?;
    if global.json() {
        return output::print_json(&json!({"from": from.sha, "to": to.sha, "changes": changes}));
    }
    let mut text = String::new();
    write_changes(&mut text, &changes);
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes one line for each path, with the letters of `git diff --name-status`.
fn write_changes(text: &mut String, changes: &[PathChange]) {
    for PathChange { path, kind } in changes {
        let letter = match kind {
            ChangeKind::Added => 'A',
            ChangeKind::Modified => 'M',
            ChangeKind::Deleted => 'D',
        };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{letter} {}", one_line(path));
    }
}
