//! Finds the checkpoint and the position that a requested target means, and the checkpoint of the current files.

use std::sync::Arc;

use hankweave_core::document::{CheckpointFacts, CheckpointTable, ContinuationSource, HankweaveState};
use hankweave_core::id::CheckpointSha;
use hankweave_core::thread::{self, ExecutionThread, TargetError};

use super::super::target::RollbackTarget;
use super::RollbackError;
use super::route::RollbackPlan;
use crate::checkpoint::{CheckpointStore, HistoryError, KnownCheckpoint};
use crate::recovery::{self, LockedExecution};

/// Returns the rollback to `target`, or why it is not possible.
pub(super) async fn find(
    possession: &LockedExecution,
    state: Arc<HankweaveState>,
    target: &RollbackTarget,
) -> Result<RollbackPlan, RollbackError> {
    let known = known_checkpoints(possession).await?;
    let thread = thread::build(&state, None, Some(&known));
    if thread.has_running_codon {
        return Err(RollbackError::Running);
    }
    let source = match resolve(target, &state, &thread, &known) {
        Err(RollbackError::Target(TargetError::UnknownSha(prefix))) => {
            let found = target_of_before_kind(possession, &state, &thread, &prefix).await?;
            let cleaned = || cleaned_up(&state, |sha| sha.as_str().starts_with(&prefix));
            let unknown = || RollbackError::Target(TargetError::UnknownSha(prefix.clone()));
            found.ok_or_else(|| cleaned().unwrap_or_else(unknown))?
        }
        resolved => resolved?,
    };
    if let Some(error) = cleaned_up(&state, |sha| *sha == source.checkpoint_sha) {
        return Err(error);
    }
    let undo = match target {
        RollbackTarget::Undo => thread::undo(&state),
        RollbackTarget::UndoOf(id) => thread::undo_of(&state, id),
        _ => None,
    };
    // An undo starts from the files with which the undone operation ended: newer files are the user's.
    let left_by_undone = match undo.as_ref().and_then(|undo| undo.left.clone()) {
        Some(sha) => if_restorable(possession, sha).await?,
        None => None,
    };
    Ok(RollbackPlan {
        source,
        left: left_by_undone.or_else(|| current_checkpoint(&state, &thread, &known)),
        state,
        thread,
        cause: target.cause(undo.map(|undo| undo.id)),
    })
}

/// Returns the checkpoint if it can be restored.
async fn if_restorable(
    possession: &LockedExecution,
    sha: CheckpointSha,
) -> Result<Option<CheckpointSha>, RollbackError> {
    let wanted = [sha];
    let found = possession.with_checkpoints(move |store| store.restorable(&wanted));
    let found = found.await.map_err(RollbackError::History)?;
    Ok(found.into_keys().next())
}

/// Returns the position that a target means.
fn resolve(
    target: &RollbackTarget,
    state: &HankweaveState,
    thread: &ExecutionThread,
    known: &CheckpointTable,
) -> Result<ContinuationSource, RollbackError> {
    match target {
        RollbackTarget::Checkpoint(prefix) => thread
            .sha_target(state, known, prefix)
            .map_err(RollbackError::Target),
        RollbackTarget::Codon(id, point) => thread.codon_target(id, *point).map_err(RollbackError::Target),
        RollbackTarget::LastSuccess => thread.last_success().ok_or(RollbackError::NoSuccess),
        RollbackTarget::Undo => {
            let undo = thread::undo(state).ok_or(RollbackError::NothingToUndo)?;
            Ok(undo.target)
        }
        RollbackTarget::UndoOf(id) => {
            let undo = thread::undo_of(state, id);
            Ok(undo.ok_or_else(|| RollbackError::NotNewest(id.clone()))?.target)
        }
        RollbackTarget::Operation(prefix) => after_operation(state, prefix),
    }
}

/// Returns the thread's position after the operation whose id begins with `prefix`.
fn after_operation(state: &HankweaveState, prefix: &str) -> Result<ContinuationSource, RollbackError> {
    let operations = thread::operations(state);
    let mut matching = operations.iter().filter(|known| known.id().starts_with(prefix));
    match (matching.next(), matching.next()) {
        (Some(_), Some(_)) => Err(RollbackError::AmbiguousOperation(prefix.to_owned())),
        (found, _) => {
            let after = found.and_then(|found| found.after(state));
            after.ok_or_else(|| RollbackError::UnknownOperation(prefix.to_owned()))
        }
    }
}

/// Returns the error for a checkpoint that a cleanup has removed; `None` if no cleanup removed one that `is_wanted`.
fn cleaned_up(state: &HankweaveState, is_wanted: impl Fn(&CheckpointSha) -> bool) -> Option<RollbackError> {
    let cleanups = state.operations.iter();
    let mut cleanups = cleanups.filter_map(|cleanup| Some((cleanup, cleanup.removed.as_ref()?)));
    cleanups.find_map(|(cleanup, removed)| {
        let sha = removed.checkpoints.iter().find(|sha| is_wanted(sha))?;
        Some(RollbackError::CleanedUp {
            sha: sha.clone(),
            operation: cleanup.id.clone(),
            at: cleanup.at,
        })
    })
}

/// Kinds of checkpoints of the files before a restore and before a codon. They are neither the end of a codon nor its rig.
const BEFORE_KINDS: [&str; 2] = ["safety", "start"];

/// Returns the target for a checkpoint of [`BEFORE_KINDS`] whose SHA begins with `prefix`; `None` without one. Such a checkpoint has no position in history, so
/// it gets that of its nearest ancestor that has one, or else the end of the thread.
async fn target_of_before_kind(
    possession: &LockedExecution,
    state: &HankweaveState,
    thread: &ExecutionThread,
    prefix: &str,
) -> Result<Option<ContinuationSource>, RollbackError> {
    let wanted = prefix.to_owned();
    let search = move |store: &dyn CheckpointStore| -> Result<_, HistoryError> {
        let known = store.list()?;
        let is_wanted = |(sha, found): &(&CheckpointSha, &KnownCheckpoint)| {
            BEFORE_KINDS.contains(&found.kind()) && sha.as_str().starts_with(&wanted)
        };
        let matching: Vec<CheckpointSha> = known
            .iter()
            .filter(is_wanted)
            .map(|(sha, _)| sha.clone())
            .collect();
        Ok((store.restorable(&matching)?, known))
    };
    let found = possession.with_checkpoints(search).await;
    let (matching, known) = found.map_err(RollbackError::History)?;
    let mut shas = matching.into_keys();
    let Some(files) = shas.next() else {
        return Ok(None);
    };
    let others: Vec<CheckpointSha> = shas.collect();
    if !others.is_empty() {
        return Err(RollbackError::Target(TargetError::Ambiguous {
            prefix: prefix.to_owned(),
            matches: std::iter::once(files).chain(others).collect(),
        }));
    }
    let parent = |sha: &CheckpointSha| known.get(sha).and_then(|found| found.parent.clone());
    let line = std::iter::successors(parent(&files), |sha| parent(sha));
    let mut positions = line.filter_map(|base| thread::source_of_files(state, &base, &files));
    let end_of_thread = || {
        let newest = thread.codons.first();
        let run = state.runs.front();
        let after_newest = newest.map(|entry| ContinuationSource {
            after_codon: Some(entry.codon.codon_id().clone()),
            ..ContinuationSource::beginning_of(&entry.run_id)
        });
        after_newest.or_else(|| Some(ContinuationSource::beginning_of(&run?.run_id)))
    };
    Ok(positions
        .next()
        .or_else(end_of_thread)
        .map(|source| ContinuationSource {
            checkpoint_sha: files,
            ..source
        }))
}

/// Returns the recorded checkpoints that can be restored. A failure to read them is an error, because it must never look like "there are
/// none" (RUN-5).
pub(crate) async fn known_checkpoints(
    possession: &LockedExecution,
) -> Result<CheckpointTable, RollbackError> {
    restorable(possession).await.map_err(RollbackError::History)
}

/// Like [`known_checkpoints`], with the error of the checkpoint store.
pub(crate) async fn restorable(possession: &LockedExecution) -> Result<CheckpointTable, HistoryError> {
    let known = match &possession.restorable {
        Some(known) => known.clone(),
        None => {
            let recorded = recovery::recorded_checkpoints(&possession.manager.snapshot());
            let known = possession.with_checkpoints(move |store| store.restorable(&recorded));
            known.await?
        }
    };
    let facts = |found: KnownCheckpoint| CheckpointFacts {
        message: found.message,
        timestamp: Some(found.timestamp),
        branch: found.branch,
    };
    Ok(known
        .into_iter()
        .map(|(sha, found)| (sha, facts(found)))
        .collect())
}

/// Returns the checkpoint with which the current files are compared when a run rolls back by itself: the one with which the newest codon ended. After a
/// rollback or an undo to the end of that codon, the restored files may differ from this checkpoint; the differences are the user's changes.
pub(super) fn left_by_run(
    state: &HankweaveState,
    thread: &ExecutionThread,
    known: &CheckpointTable,
) -> Option<CheckpointSha> {
    let end = || {
        let end = thread::end_at(state, &state.pending_rollback.as_ref()?.source)?;
        known.contains_key(end).then(|| end.clone())
    };
    end().or_else(|| current_checkpoint(state, thread, known))
}

/// Returns the checkpoint of the current files: the newest one that can be read. Files that only an unreadable checkpoint has are not
/// known, and stay in the workspace.
fn current_checkpoint(
    state: &HankweaveState,
    thread: &ExecutionThread,
    known: &CheckpointTable,
) -> Option<CheckpointSha> {
    let position = thread::position(state, thread);
    let recorded = thread.codons.iter().filter_map(|entry| {
        let (_, newest) = entry.codon.checkpoints().last()?;
        Some(newest.clone())
    });
    position
        .into_iter()
        .chain(recorded)
        .find(|sha| known.contains_key(sha))
}
