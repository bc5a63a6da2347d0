//! Bytes to document and back ("state model", sections 2, 3 and 7).

use std::fmt;

use super::HankweaveState;

/// Larger files are refused before they are parsed ("reliability and security", rule D3).
pub const MAX_STATE_BYTES: usize = 64 << 20;

/// The kinds of problem that keep a document from being used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProblemKind {
    /// Not JSON, or not the shape of a state document.
    CorruptedData,
    /// `currentRunId` names no run.
    MissingRun,
    /// A codon does not have the fields of its status.
    InvalidCodon,
}

impl fmt::Display for ProblemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CorruptedData => "corrupted_data",
            Self::MissingRun => "missing_run",
            Self::InvalidCodon => "invalid_codon",
        })
    }
}

/// One reason why a document cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} at {path}: {message}")]
pub struct StateProblem {
    /// The kind.
    pub kind: ProblemKind,
    /// Where: a JSON path such as `runs[0].codons[2].completionCheckpoint`, `$` for the whole document.
    pub path: String,
    /// What is wrong there.
    pub message: String,
}

/// Reads and checks a document.
///
/// # Errors
///
/// Returns every reason why the document cannot be used; never an empty list.
pub fn parse(bytes: &[u8]) -> Result<HankweaveState, Vec<StateProblem>> {
    if bytes.len() > MAX_STATE_BYTES {
        return Err(vec![corrupted(
            "$",
            format!("larger than {} MiB", MAX_STATE_BYTES >> 20),
        )]);
    }
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let state: HankweaveState =
        serde_path_to_error::deserialize(&mut deserializer).map_err(|error| vec![problem(&error)])?;
    deserializer
        .end()
        .map_err(|error| vec![corrupted("$", error.to_string())])?;
    let problems: Vec<StateProblem> = missing_run(&state).into_iter().collect();
    if problems.is_empty() {
        Ok(state)
    } else {
        Err(problems)
    }
}

/// Writes a document the way state.json holds it: two spaces of indentation and a newline at the end.
#[must_use]
pub fn render(state: &HankweaveState) -> String {
    let mut text =
        serde_json::to_string_pretty(state).expect("keys are strings and paths were read from JSON");
    text.push('\n');
    text
}

/// Text that is not JSON is corrupted wherever it breaks off; a codon that JSON can hold and the table cannot is invalid.
fn problem(error: &serde_path_to_error::Error<serde_json::Error>) -> StateProblem {
    let path = error.path().to_string();
    if !error.inner().is_data() || path == "." {
        return corrupted("$", error.inner().to_string());
    }
    let kind = if path.contains("].codons[") {
        ProblemKind::InvalidCodon
    } else {
        ProblemKind::CorruptedData
    };
    StateProblem {
        kind,
        path,
        message: error.inner().to_string(),
    }
}

fn missing_run(state: &HankweaveState) -> Option<StateProblem> {
    let id = state.current_run_id.as_ref()?;
    state.run(id).is_none().then(|| StateProblem {
        kind: ProblemKind::MissingRun,
        path: "currentRunId".to_owned(),
        message: format!("run `{id}` does not exist"),
    })
}

fn corrupted(path: &str, message: String) -> StateProblem {
    StateProblem {
        kind: ProblemKind::CorruptedData,
        path: path.to_owned(),
        message,
    }
}
