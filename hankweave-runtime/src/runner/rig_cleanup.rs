//! Removing from the workspace what the rigs of undone codons had copied (RUN-20).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hankweave_core::id::CodonId;
use hankweave_core::wire::{CleanupStatus, Event, FailedDirectory};

use crate::error::chain;
use crate::recovery::LockedExecution;
use crate::rig::{RigCopies, RigCopy};
use crate::world::disk::Disk;

/// Removes the unchanged copies of a codon, publishes that, and returns the removed ones. `kept` are the
/// places where other codons need a copy.
pub(super) async fn clean_up(
    possession: &LockedExecution,
    (codon_id, codon_name): (&CodonId, String),
    kept: &BTreeSet<PathBuf>,
) -> Vec<RigCopy> {
    let found = found(possession, codon_id, kept).await;
    if found.is_empty() {
        return Vec::new();
    }
    let cleanup = |status| Event::RollbackRigCleanup {
        codon_id: codon_id.clone(),
        codon_name: codon_name.clone(),
        directories: found.iter().map(place).collect(),
        status,
        successful_cleanups: None,
        failed_cleanups: None,
        error: None,
    };
    possession.publish(cleanup(CleanupStatus::Started)).await;
    let wanted = found.clone();
    let remove = move |copies: &RigCopies, disk: &dyn Disk| {
        let remove = |copy: RigCopy| {
            let removed = copies.take_out(disk, &copy).map_err(|error| chain(&error));
            (copy, removed)
        };
        wanted.into_iter().map(remove).collect::<Vec<_>>()
    };
    let (mut gone, mut failed) = (Vec::new(), Vec::new());
    for (copy, taken) in with_copies(possession, remove).await {
        let directory = place(&copy);
        match taken {
            Ok(()) => gone.push(copy),
            Err(error) => failed.push(FailedDirectory { directory, error }),
        }
    }
    let status = match (gone.is_empty(), failed.is_empty()) {
        (_, true) => CleanupStatus::Completed,
        (false, false) => CleanupStatus::Partial,
        (true, false) => CleanupStatus::Failed,
    };
    let mut event = cleanup(status);
    if let Event::RollbackRigCleanup {
        successful_cleanups,
        failed_cleanups,
        ..
    } = &mut event
    {
        *successful_cleanups = Some(gone.iter().map(place).collect());
        *failed_cleanups = Some(failed);
    }
    possession.publish(event).await;
    gone
}

/// The copies of a codon that would be removed now. Changes nothing.
pub(super) async fn untouched(
    possession: &LockedExecution,
    codon_id: &CodonId,
    kept: &BTreeSet<PathBuf>,
) -> Vec<String> {
    let found = found(possession, codon_id, kept).await;
    let look = move |copies: &RigCopies, disk: &dyn Disk| {
        let untouched = found.iter().filter(|copy| copies.can_take_out(disk, copy));
        untouched.map(place).collect()
    };
    with_copies(possession, look).await
}

/// The copies of a codon that are in the workspace, without those at the places of `kept`.
async fn found(possession: &LockedExecution, codon_id: &CodonId, kept: &BTreeSet<PathBuf>) -> Vec<RigCopy> {
    let (codon, kept) = (codon_id.configured().to_owned(), kept.clone());
    let find = move |copies: &RigCopies, disk: &dyn Disk| {
        let kept = kept.iter().map(PathBuf::as_path).collect();
        let found = copies.found(disk, &codon, &kept);
        found.into_iter().cloned().collect()
    };
    with_copies(possession, find).await
}

/// Runs `work` with the rigs' copies, on a blocking thread.
async fn with_copies<T: Send + 'static>(
    possession: &LockedExecution,
    work: impl FnOnce(&RigCopies, &dyn Disk) -> T + Send + 'static,
) -> T {
    let (copies, disk) = (Arc::clone(&possession.rig_copies), possession.world.disk.clone());
    possession.world.blocking.run(move || work(&copies, &*disk)).await
}

/// Makes copies again, because the rollback failed before it changed anything.
pub(super) async fn put_back(possession: &LockedExecution, gone: Vec<RigCopy>) {
    let work = move |copies: &RigCopies, disk: &dyn Disk| {
        for copy in gone {
            if let Err(error) = copies.put_back(disk, &copy) {
                tracing::warn!(error = %chain(&error), to = %copy.to.display(), "a copy of a rig could not be made again");
            }
        }
    };
    with_copies(possession, work).await;
}

pub(super) fn place(copy: &RigCopy) -> String {
    Path::to_string_lossy(&copy.to).into_owned()
}
