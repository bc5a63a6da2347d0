//! All checkpoints that the state document or the repository knows, and how a user names one of them (CLI-13).

use std::collections::BTreeMap;
use std::path::Path;

use hankweave_core::document::HankweaveState;
use hankweave_core::id::CheckpointSha;
use hankweave_core::time::Timestamp;
use hankweave_runtime::ExecutionDir;
use hankweave_runtime::checkpoint::{CheckpointsBySha, GitHistory, HistoryError, KnownCheckpoint};
use serde::Serialize;

use crate::hints::HintCommands;
use crate::owning_task::existing_state_dir;
use crate::state;
use crate::terminal::exit::{CliError, CliErrorKind};
use crate::terminal::left_out::LeftOut;

/// The checkpoints of an execution directory, newest first.
pub(super) struct Catalogue {
    pub(super) state: HankweaveState,
    pub(super) rows: Vec<CheckpointRow>,
    /// The repository; `None` if there is none.
    history: Option<GitHistory>,
    pub(super) hints: HintCommands,
}

/// One checkpoint.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CheckpointRow {
    pub(super) sha: CheckpointSha,
    /// `initial`, `start`, `rig-setup`, `completed`, `error`, `skipped` or `safety`.
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) codon_id: Option<String>,
    pub(super) run_id: Option<String>,
    pub(super) timestamp: Option<Timestamp>,
    pub(super) branch: Option<String>,
    pub(super) parent: Option<CheckpointSha>,
    /// Files that belong to the checkpoint but are not stored in it.
    #[serde(rename = "leftOut", skip_serializing_if = "LeftOut::is_empty")]
    pub(super) without: LeftOut,
    /// The full message of the commit.
    #[serde(skip)]
    pub(super) message: String,
    /// Whether state.json names it.
    pub(super) recorded: bool,
    /// Whether the repository lacks the checkpoint or a part of it.
    pub(super) missing: bool,
}

impl Catalogue {
    pub(super) fn of(execution: &Path) -> Result<Self, CliError> {
        existing_state_dir(execution)?;
        let hints = HintCommands::about(execution);
        let repository = ExecutionDir::new(execution.to_owned()).checkpoints();
        let history =
            GitHistory::open(&repository).map_err(|error| repository_failure(&repository, &error, &hints))?;
        let state = state::read_execution(execution)?;
        let mut rows = recorded(&state);
        let (known, restorable) = match &history {
            None => Default::default(),
            Some(history) => read_history(history, &rows)
                .map_err(|error| repository_failure(&repository, &error, &hints))?,
        };
        for (sha, known) in known {
            let row = rows
                .entry(sha.clone())
                .or_insert_with(|| CheckpointRow::of_repository(&sha, &known));
            row.add(&known);
            row.missing = !restorable.contains_key(&sha);
        }
        // The first commit of every repository holds nothing.
        let mut rows: Vec<CheckpointRow> = rows
            .into_values()
            .filter(|row| row.kind != "repository")
            .collect();
        rows.sort_by(|left, right| {
            right
                .timestamp
                .cmp(&left.timestamp)
                .then(left.sha.cmp(&right.sha))
        });
        Ok(Self {
            state,
            rows,
            history,
            hints,
        })
    }

    /// Returns the checkpoint that a rollback restored, if `row` is the checkpoint with the files before that rollback.
    pub(super) fn restored_after(&self, row: &CheckpointRow) -> Option<&CheckpointSha> {
        let mut operations = self.state.operations.iter();
        let operation = operations.find(|known| known.files > 0 && known.before.checkpoint_sha == row.sha)?;
        Some(&operation.after.checkpoint_sha)
    }

    /// Returns the checkpoint with this SHA or beginning of a SHA.
    pub(super) fn find(&self, name: &str) -> Result<&CheckpointRow, CliError> {
        let wanted = name.to_ascii_lowercase();
        let is_hex = !wanted.is_empty() && wanted.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_hex {
            let message = format!("`{name}` is no SHA of a checkpoint nor the beginning of one");
            let is_path = name.contains(['/', '.']);
            let of_path = || {
                let listed = HintCommands::about(Path::new(name)).command("checkpoints");
                format!("a directory is named with -e: `{listed}`")
            };
            let hint = if is_path { of_path() } else { self.lists() };
            return Err(CliError::new(CliErrorKind::Input, message).hint(hint));
        }
        let fits = |row: &&CheckpointRow| row.sha.as_str().starts_with(&wanted);
        let fitting: Vec<&CheckpointRow> = self.rows.iter().filter(fits).collect();
        match *fitting {
            [] => {
                let message = format!("no checkpoint begins with `{name}`");
                Err(CliError::new(CliErrorKind::Input, message).hint(self.lists()))
            }
            [only] => Ok(only),
            _ => {
                let list: Vec<&str> = fitting.iter().map(|row| row.sha.as_str()).collect();
                let message = format!("`{name}` fits several checkpoints: {}", list.join(", "));
                Err(CliError::new(CliErrorKind::Input, message).hint("write more of the SHA"))
            }
        }
    }

    /// Returns the newest checkpoint of a codon, or of any codon if `codon` is `None`. An id without an iteration, such as `fix`, means the newest iteration of
    /// `fix` in its loop. The `start` checkpoint of a run does not count: it is no work of a codon.
    pub(super) fn newest_of(&self, codon: Option<&str>) -> Option<&CheckpointRow> {
        let is_meant = |row: &&CheckpointRow| match codon {
            Some(codon) => row.codon_id.as_deref().is_some_and(|id| {
                let iteration = id.strip_prefix(codon);
                iteration.is_some_and(|rest| rest.is_empty() || rest.starts_with('#'))
            }),
            None => row.codon_id.is_some(),
        };
        self.rows.iter().filter(|row| row.kind != "start").find(is_meant)
    }

    /// Returns the hint that lists the checkpoints.
    pub(super) fn lists(&self) -> String {
        format!("`{}` lists all of them", self.hints.command("checkpoints"))
    }

    /// Returns the repository; fails with a hint if there is none, which can only be if every row is missing.
    pub(super) fn history(&self) -> Result<&GitHistory, CliError> {
        self.history.as_ref().ok_or_else(|| {
            CliError::new(CliErrorKind::Input, "there is no checkpoint repository").hint(format!(
                "`{}` makes it; without it nothing can be restored",
                self.hints.run()
            ))
        })
    }
}

impl CheckpointRow {
    /// Returns a checkpoint that only the repository knows; [`add`](Self::add) fills in the rest.
    fn of_repository(sha: &CheckpointSha, known: &KnownCheckpoint) -> Self {
        Self {
            sha: sha.clone(),
            kind: known.kind().to_owned(),
            codon_id: known.codon().map(str::to_owned),
            run_id: known.run().map(str::to_owned),
            timestamp: None,
            branch: None,
            parent: None,
            without: LeftOut::default(),
            message: String::new(),
            recorded: false,
            missing: true,
        }
    }

    /// Adds what the repository knows of the checkpoint.
    fn add(&mut self, known: &KnownCheckpoint) {
        self.timestamp = Some(known.timestamp);
        self.branch = Some(known.branch.clone());
        self.parent.clone_from(&known.parent);
        self.message.clone_from(&known.message);
        let (files, count) = known.left_out();
        self.without = LeftOut { files, count };
    }
}

/// Returns all checkpoints that a branch leads to or the state names, and those of them that are complete.
fn read_history(
    history: &GitHistory,
    recorded: &BTreeMap<CheckpointSha, CheckpointRow>,
) -> Result<(CheckpointsBySha, CheckpointsBySha), HistoryError> {
    let mut known = history.known()?;
    let all: Vec<CheckpointSha> = known.keys().chain(recorded.keys()).cloned().collect();
    let restorable = history.restorable(&all)?;
    // A complete checkpoint before a missing one is reached by no branch, only by the name in the state, so its branch is unknown.
    for (sha, found) in &restorable {
        known.entry(sha.clone()).or_insert_with(|| found.clone());
    }
    Ok((known, restorable))
}

impl CheckpointRow {
    /// Returns a checkpoint that state.json names, before the repository is read.
    fn recorded(sha: CheckpointSha, kind: &str) -> Self {
        Self {
            sha,
            kind: kind.to_owned(),
            codon_id: None,
            run_id: None,
            timestamp: None,
            branch: None,
            parent: None,
            without: LeftOut::default(),
            message: String::new(),
            recorded: true,
            missing: true,
        }
    }
}

/// Returns the checkpoints that state.json names, without those that a cleanup has removed; the repository is not read yet.
fn recorded(state: &HankweaveState) -> BTreeMap<CheckpointSha, CheckpointRow> {
    let initial = state.initial_checkpoint.iter();
    let initial = initial.map(|sha| CheckpointRow::recorded(sha.clone(), "initial"));
    let codons = state.runs.iter().flat_map(|run| {
        run.codons.iter().flat_map(move |codon| {
            codon.checkpoints().map(move |(kind, sha)| CheckpointRow {
                codon_id: Some(codon.codon_id().to_string()),
                run_id: Some(run.run_id.to_string()),
                ..CheckpointRow::recorded(sha.clone(), &kind.to_string())
            })
        })
    });
    let removed = state.removed_checkpoints();
    let rows = initial
        .chain(codons)
        .filter(|row| !row.sha.is_blank() && !removed.contains(&row.sha));
    rows.map(|row| (row.sha.clone(), row)).collect()
}

fn repository_failure(repository: &Path, error: &HistoryError, hints: &HintCommands) -> CliError {
    let message = format!(
        "`{}`: {}",
        repository.display(),
        hankweave_runtime::error::chain(error)
    );
    CliError::new(CliErrorKind::Input, message).hint(format!(
        "`{}` keeps a repository aside that git cannot read, and continues",
        hints.run()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalogue(shas: &[&str]) -> Catalogue {
        let row = |sha: &&str| CheckpointRow {
            missing: false,
            ..CheckpointRow::recorded(CheckpointSha::new(*sha), "completed")
        };
        Catalogue {
            state: HankweaveState::default(),
            rows: shas.iter().map(row).collect(),
            history: None,
            hints: HintCommands::about(Path::new(".")),
        }
    }

    #[test]
    fn a_checkpoint_is_found_by_the_beginning_of_its_sha() {
        let catalogue = catalogue(&["abc1", "abd2"]);
        assert_eq!(catalogue.find("ABC").unwrap().sha.as_str(), "abc1");
        let refused = |name: &str| catalogue.find(name).unwrap_err().text().as_str().to_owned();
        assert!(refused("ab").contains("`ab` fits several checkpoints: abc1, abd2"));
        assert!(refused("f").contains("no checkpoint begins with `f`"));
        for name in ["", "HEAD", "abc1^", "--all", "main"] {
            assert!(refused(name).contains("is no SHA"), "{name}");
        }
    }
}
