//! Moves archived files back into the workspace when a rollback undoes the codons that had archived them (RUN-21).

use std::collections::BTreeSet;

use hankweave_core::document::{ContinuationSource, PendingRollback};
use hankweave_core::id::{CheckpointSha, CodonId};
use hankweave_core::wire::{Event, FailedPath, RestoreStatus};

use super::super::finish::archive;
use super::RollbackError;
use crate::checkpoint::CheckpointStore;
use crate::recovery::LockedExecution;
use crate::rig::{ArchiveEntry, RestoredEntry};

/// Moves the files of undone codons back out of the archive, and publishes that for each codon (RUN-21).
pub(super) async fn unarchive(
    possession: &LockedExecution,
    pending: &PendingRollback,
) -> Result<(), RollbackError> {
    let entries = archived(possession, &pending.source, pending.left.clone()).await?;
    if entries.is_empty() {
        return Ok(());
    }
    let (disk, archive) = (possession.world.disk.clone(), archive(&possession.dir));
    let work = move || archive.restore(&*disk, &entries);
    let results = possession.world.blocking.run(work).await;
    let results = results.map_err(RollbackError::Archive)?;
    for of_codon in results.chunk_by(|(left, _), (right, _)| left.codon_id == right.codon_id) {
        if let Some(event) = restore_event(of_codon) {
            possession.publish(event).await;
        }
    }
    Ok(())
}

/// Returns the event about the archived files of one codon.
fn restore_event(of_codon: &[RestoredEntry]) -> Option<Event> {
    let (first, _) = of_codon.first()?;
    let (mut restored, mut failed) = (Vec::new(), Vec::new());
    for (entry, result) in of_codon {
        match result {
            Ok(()) => restored.push(entry.source_path.clone()),
            Err(error) => failed.push(FailedPath {
                path: entry.source_path.clone(),
                error: error.clone(),
            }),
        }
    }
    let status = match (restored.is_empty(), failed.is_empty()) {
        (_, true) => RestoreStatus::Completed,
        (false, false) => RestoreStatus::Partial,
        (true, false) => RestoreStatus::Failed,
    };
    Some(Event::RollbackArchiveRestore {
        codon_id: CodonId::new(&*first.codon_id).ok()?,
        restored_paths: restored,
        failed_paths: failed,
        status,
    })
}

/// Returns the files that were archived by the codons between the target and `left`, the checkpoint of the current files, and those that were archived
/// without a checkpoint. Returns only the latter if `left` is `None`.
pub(super) async fn archived(
    possession: &LockedExecution,
    source: &ContinuationSource,
    left: Option<CheckpointSha>,
) -> Result<Vec<ArchiveEntry>, RollbackError> {
    let (target, disk, archive) = (
        source.checkpoint_sha.clone(),
        possession.world.disk.clone(),
        archive(&possession.dir),
    );
    let work = move |store: &dyn CheckpointStore| {
        if archive.is_empty(&*disk).map_err(RollbackError::Archive)? {
            return Ok(Vec::new());
        }
        let undone = undone(store, &target, left.as_ref())?;
        archive.undone(&*disk, &undone).map_err(RollbackError::Archive)
    };
    possession.with_checkpoints(work).await
}

/// Returns `left` and the checkpoints on which it builds, without the target and those on which the target builds.
fn undone(
    store: &dyn CheckpointStore,
    target: &CheckpointSha,
    left: Option<&CheckpointSha>,
) -> Result<BTreeSet<CheckpointSha>, RollbackError> {
    let known = store.list().map_err(RollbackError::History)?;
    // A checkpoint and all those on which it builds. A checkpoint that was visited before ends the walk.
    let line = |from: Option<&CheckpointSha>| {
        let mut line = BTreeSet::new();
        let mut next = from.cloned();
        while let Some(sha) = next.filter(|sha| line.insert(sha.clone())) {
            next = known.get(&sha).and_then(|found| found.parent.clone());
        }
        line
    };
    let (line_of_left, line_of_target) = (line(left), line(Some(target)));
    Ok(line_of_left.difference(&line_of_target).cloned().collect())
}
