//! Rollbacks of a report: the files that each rollback changed, and the safety checkpoint with the files that were replaced.

use std::collections::BTreeSet;
use std::path::Path;

use hankweave_core::document::{HankweaveState, Operation};
use hankweave_core::id::{CheckpointSha, CodonId};
use hankweave_core::thread;
use hankweave_core::time::Timestamp;
use hankweave_runtime::ExecutionDir;
use hankweave_runtime::checkpoint::{GitHistory, PathChange};
use hankweave_runtime::world::disk::{Disk as _, RealDisk};
use serde::Serialize;

use super::files::FileReport;
use crate::status::StatusView;
use crate::terminal::shell::word;

/// Largest number of rollbacks that a report lists; older ones are left out.
const LISTED: usize = 20;

/// Largest number of files of a rollback that a report names.
const NAMED: usize = 40;

/// A rollback, an undo or a restore.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RollbackReport {
    /// Id of its operation.
    pub(super) operation: String,
    /// Command of the rollback; [`Operation::BY_A_RUN`] for a run that began with the rollback.
    pub(super) command: String,
    pub(super) at: Timestamp,
    /// Checkpoint that was restored.
    pub(super) to: CheckpointSha,
    /// Codon after which `to` was made; `None` for the checkpoint before the first codon.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) after_codon: Option<CodonId>,
    /// Number of files that the rollback changed.
    pub(super) count: u64,
    /// First of the changed files, ordered by path.
    pub(super) changes: Vec<FileReport>,
    /// Checkpoint with the files that were replaced; `None` if no file was changed, or a cleanup has removed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) safety: Option<CheckpointSha>,
    /// Command that prints a file of `safety`, which the user names in place of FILE.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) prints: Option<String>,
    /// Command that rolls back to `safety`; `None` in a task, where only the worker rolls back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) brings_back: Option<String>,
    /// Codons that started since the rollback; the command in `brings_back` undoes their work.
    #[serde(rename = "takesBack", skip_serializing_if = "Vec::is_empty")]
    pub(super) also_undoes: Vec<CodonId>,
}

/// Returns the newest rollbacks, in their order.
pub(super) fn rollbacks(execution: &Path, status: &StatusView<'_>) -> Vec<RollbackReport> {
    let state = status.state;
    let all = state.operations.iter().filter(|known| known.removed.is_none());
    let mut all: Vec<&Operation> = all.collect();
    if all.is_empty() {
        return Vec::new();
    }
    all.sort_by_key(|operation| operation.at);
    let shown = all.split_off(all.len().saturating_sub(LISTED));
    let repository = ExecutionDir::new(execution.to_owned()).checkpoints();
    let history = GitHistory::open(&repository).ok().flatten();
    let real = RealDisk.real_path(&repository).unwrap_or(repository);
    let removed = state.removed_checkpoints();
    let shown = shown.into_iter();
    shown
        .map(|operation| {
            let changes = history
                .as_ref()
                .and_then(|history| changes(history, state, operation));
            let before = &operation.before.checkpoint_sha;
            let safety = (operation.files > 0 && !removed.contains(before)).then(|| before.clone());
            let command = |sha: &CheckpointSha| format!("rollback --to {}", sha.short());
            let brings_back = safety.as_ref().filter(|_| status.task.is_none());
            let also_undoes = brings_back.map_or_else(Vec::new, |_| begun_since(status, operation.at));
            RollbackReport {
                also_undoes,
                operation: operation.id.clone(),
                command: operation.command.clone(),
                at: operation.at,
                to: operation.after.checkpoint_sha.clone(),
                after_codon: operation.after.after_codon.clone(),
                count: operation.files,
                changes: changes
                    .into_iter()
                    .flatten()
                    .take(NAMED)
                    .map(FileReport::of)
                    .collect(),
                prints: safety.as_ref().map(|sha| {
                    let repository = word(&real.to_string_lossy());
                    format!("git --git-dir={repository} show {}:FILE", sha.short())
                }),
                brings_back: brings_back.map(|sha| status.hints.command(&command(sha))),
                safety,
            }
        })
        .collect()
}

/// Returns the codons of the history that have begun since this time, in their order.
fn begun_since(status: &StatusView<'_>, at: Timestamp) -> Vec<CodonId> {
    let newest = status.thread.codons.iter();
    let newest = newest.take_while(|entry| *entry.codon.start_time() >= at);
    let mut ids: Vec<CodonId> = newest.map(|entry| entry.codon.codon_id().clone()).collect();
    ids.reverse();
    let mut known = BTreeSet::new();
    ids.retain(|id| known.insert(id.clone()));
    ids
}

/// Returns the files that an operation changed. Its checkpoints may differ in more files than it changed: in those that were changed after the codon had
/// ended, which a rollback leaves alone.
fn changes(history: &GitHistory, state: &HankweaveState, operation: &Operation) -> Option<Vec<PathChange>> {
    if operation.files == 0 {
        return None;
    }
    let (before, after) = (&operation.before, &operation.after);
    let all = history.diff(&before.checkpoint_sha, &after.checkpoint_sha).ok()?;
    let is_exact = |changes: &[PathChange]| u64::try_from(changes.len()) == Ok(operation.files);
    if is_exact(&all) {
        return Some(all);
    }
    let codon_end = thread::end_at(state, before);
    let since = codon_end.and_then(|end| history.diff(end, &before.checkpoint_sha).ok());
    let spared: BTreeSet<_> = since.into_iter().flatten().map(|change| change.path).collect();
    let others = all.iter().filter(|change| !spared.contains(&change.path));
    let others: Vec<PathChange> = others.cloned().collect();
    Some(if is_exact(&others) { others } else { all })
}
