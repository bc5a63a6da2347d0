//! Archived files of codons that are undone come back (RUN-21).

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
    let taken = possession.world.blocking.run(work).await;
    let taken = taken.map_err(RollbackError::Archive)?;
    for taken in taken.chunk_by(|(left, _), (right, _)| left.codon_id == right.codon_id) {
        if let Some(event) = archive_restore(taken) {
            possession.publish(event).await;
        }
    }
    Ok(())
}

fn archive_restore(taken: &[RestoredEntry]) -> Option<Event> {
    let (first, _) = taken.first()?;
    let (mut restored, mut failed) = (Vec::new(), Vec::new());
    for (entry, result) in taken {
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

/// Returns the files archived after the target, on the line of the current checkpoint.
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

/// The checkpoints on the line of the current checkpoint that the target does not build on.
fn undone(
    store: &dyn CheckpointStore,
    target: &CheckpointSha,
    left: Option<&CheckpointSha>,
) -> Result<BTreeSet<CheckpointSha>, RollbackError> {
    let known = store.list().map_err(RollbackError::History)?;
    let line = |from: Option<&CheckpointSha>| {
        let mut line = BTreeSet::new();
        let mut next = from.cloned();
        while let Some(sha) = next.filter(|sha| line.insert(sha.clone())) {
            next = known.get(&sha).and_then(|found| found.parent.clone());
        }
        line
    };
    let (left, kept) = (line(left), line(Some(target)));
    Ok(left.difference(&kept).cloned().collect())
}
