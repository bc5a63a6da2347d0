//! Files of a report: what changed between its start and its end.

use std::path::Path;

use hankweave_core::id::CheckpointSha;
use hankweave_core::thread;
use hankweave_runtime::ExecutionDir;
use hankweave_runtime::checkpoint::{ChangeKind, GitHistory, PathChange};
use serde::Serialize;

use crate::checkpoints::{LineCounts, changed_lines};
use crate::hints::HintCommands;
use crate::status::StatusView;

/// Largest number of codons, of attempts and of files that a report lists.
pub(super) const LISTED: usize = 200;

/// Files that differ from those before the first codon.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FilesReport {
    /// Checkpoint before the first codon.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) from: Option<CheckpointSha>,
    /// Checkpoint at the end of the thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) to: Option<CheckpointSha>,
    /// Number of changed files; `None` without these checkpoints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) count: Option<usize>,
    /// First of the changed files, ordered by path.
    pub(super) changes: Vec<FileReport>,
    /// Lines added and removed in all changed files; `None` without git.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lines: Option<LineCounts>,
    /// Command that shows the changes; empty without checkpoints.
    pub(super) shown_by: String,
}

#[derive(Debug, Serialize)]
pub(super) struct FileReport {
    pub(super) path: String,
    pub(super) kind: ChangeKind,
    /// `None` for a binary file, or if lines are not counted.
    #[serde(flatten)]
    pub(super) lines: Option<LineCounts>,
}

impl FileReport {
    /// Returns a change whose lines are not counted.
    pub(super) fn of(change: PathChange) -> Self {
        Self {
            path: change.path.to_string(),
            kind: change.kind,
            lines: None,
        }
    }
}

impl FilesReport {
    pub(super) fn of(execution: &Path, status: &StatusView<'_>) -> Self {
        let head = thread::head(status.state).map(|head| head.checkpoint_sha);
        let Some((from, to)) = status.drawn.files.base.clone().zip(head) else {
            return Self::default();
        };
        let repository = ExecutionDir::new(execution.to_owned()).checkpoints();
        let history = GitHistory::open(&repository).ok().flatten();
        let changes = history.and_then(|history| history.diff(&from, &to).ok());
        let lines = changed_lines(execution, &from, &to);
        let listed = changes.iter().flatten().take(LISTED).map(|change| {
            let path = change.path.to_string();
            FileReport {
                lines: lines.as_ref().and_then(|lines| lines.get(&path).copied()),
                kind: change.kind,
                path,
            }
        });
        Self {
            changes: listed.collect(),
            count: changes.as_ref().map(Vec::len),
            lines: lines.map(|lines| {
                lines.values().fold(LineCounts::default(), |sum, one| LineCounts {
                    added: sum.added.saturating_add(one.added),
                    removed: sum.removed.saturating_add(one.removed),
                })
            }),
            shown_by: HintCommands::from_anywhere(execution).command(&format!(
                "diff {}..{}",
                from.short(),
                to.short()
            )),
            from: Some(from),
            to: Some(to),
        }
    }
}
