//! Reads the bytes of state.json into a document, and writes a document (D3, STATE-33).
//!
//! A good file is read once, straight into its types. Only when that fails, the text is read again, as a tree in which every problem is looked for. Files that
//! are merely unusual, such as those with `null` for an absent field, are read in this second way.

use serde::Deserialize;

use super::check::{FORMAT, SCHEMA_VERSION_FIELD, document, problem};
use super::outline::Outline;
use super::tree;
use super::{HankweaveState, ProblemKind, StateProblem};
use crate::shape::depth::is_deeper_than;
use crate::shape::{Checker, ShapeProblem, syntax};

/// Size limit of state.json in bytes; larger files are refused before they are parsed (D3).
///
/// A codon takes 1.4 KB, so this is room for 180,000 of them: four months with one each minute. A usual file is read in 1.9 times its size, an unusual one
/// in 5.7 times, so the limit also keeps a planted file from using up a machine's memory.
pub const MAX_STATE_BYTES: usize = 256 << 20;

/// Limit of the nesting of objects and lists (D3).
pub const MAX_STATE_DEPTH: usize = 64;

/// Reads and checks a document.
///
/// # Errors
///
/// Returns every reason why the document cannot be used; never an empty list.
pub fn parse(bytes: &[u8]) -> Result<HankweaveState, Vec<StateProblem>> {
    if bytes.len() > MAX_STATE_BYTES {
        return Err(vec![StateProblem::corrupted(format!(
            "larger than {} MiB",
            MAX_STATE_BYTES >> 20
        ))]);
    }
    if is_deeper_than(bytes, MAX_STATE_DEPTH) {
        return Err(vec![StateProblem::corrupted(format!(
            "nested deeper than {MAX_STATE_DEPTH} levels"
        ))]);
    }
    if let Ok(state) = serde_json::from_slice::<HankweaveState>(bytes)
        && is_whole(&state)
    {
        return Ok(state);
    }
    parse_slowly(bytes)
}

/// Returns the version that a document claims if this program does not read that version. The document is not damaged then, and must not be replaced
/// (D4).
#[must_use]
pub fn foreign_version(bytes: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    struct Versioned {
        #[serde(rename = "schemaVersion")]
        version: u64,
    }
    let Versioned { version } = serde_json::from_slice(bytes).ok()?;
    (version != FORMAT).then_some(version)
}

/// Writes a document the way state.json holds it: two spaces of indentation and a newline at the end.
#[must_use]
pub fn render(state: &HankweaveState) -> String {
    render_sized(state, 0)
}

/// Renders with room for `expected_bytes` from the start: a long text that grows takes three times its own memory.
#[must_use]
pub fn render_sized(state: &HankweaveState, expected_bytes: usize) -> String {
    let mut text = Vec::with_capacity(expected_bytes);
    serde_json::to_writer_pretty(&mut text, state).expect("keys are strings and paths were read from JSON");
    text.push(b'\n');
    String::from_utf8(text).expect("JSON is text")
}

/// Whether the parts fit together, and nothing hints at another format.
fn is_whole(state: &HankweaveState) -> bool {
    state.extra.get(SCHEMA_VERSION_FIELD).is_none() && Outline::of(state).problems().is_empty()
}

/// Reads the text as a tree and returns every problem, or the document if there is none after all.
fn parse_slowly(bytes: &[u8]) -> Result<HankweaveState, Vec<StateProblem>> {
    let (mut tree, repeated_names) = tree::read(bytes).map_err(|error| vec![not_json(&error)])?;
    let repeated_names = repeated_names
        .into_iter()
        .map(|ShapeProblem { path, message }| StateProblem {
            kind: ProblemKind::CorruptedData,
            path,
            message,
        });
    let mut problems: Vec<_> = repeated_names.collect();
    let mut checker = Checker::default();
    document(&mut checker, &mut tree);
    problems.extend(checker.into_findings().into_iter().map(problem));
    problems.extend(Outline::of_tree(&tree).problems());
    if !problems.is_empty() {
        return Err(problems);
    }
    // The checks refuse all that the types refuse, so this is not expected to fail.
    let state = serde_path_to_error::deserialize(tree);
    state.map_err(|error| {
        vec![StateProblem {
            kind: ProblemKind::CorruptedData,
            path: error.path().to_string(),
            message: error.inner().to_string(),
        }]
    })
}

/// Returns the problem of a text that is not JSON, with its line and column, in words for people.
fn not_json(error: &serde_json::Error) -> StateProblem {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let message = match text.strip_suffix(&place).unwrap_or(&text) {
        _ if error.is_eof() => "the text ends before the document does",
        text => syntax(text),
    };
    // The end of an empty line has no column of its own.
    StateProblem::corrupted(format!("{}:{}: {message}", error.line(), error.column().max(1)))
}
