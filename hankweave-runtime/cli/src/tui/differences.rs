//! Differences of one file of the workspace from a checkpoint, as git prints them.

use std::path::Path;

use hankweave_core::id::CheckpointSha;

use crate::checkpoints::compare_file;
use crate::terminal::screen::SafeText;

/// The most lines that are shown.
const LINES: usize = 5_000;

/// Returns the lines of the difference, or one that says why there are none.
pub(super) fn of(execution: &Path, base: &CheckpointSha, path: &Path) -> Vec<String> {
    let text = match compare_file(execution, base, path) {
        Ok(text) => text,
        Err(failure) => return vec![failure.to_string()],
    };
    let text = String::from_utf8_lossy(&text);
    let lines = text.lines().take(LINES);
    let lines: Vec<String> = lines
        .map(|line| SafeText::from(line.replace('\t', "    ")).as_str().to_owned())
        .collect();
    match lines.is_empty() {
        true => vec!["no difference: it is as it was when the codon began".to_owned()],
        false => lines,
    }
}
