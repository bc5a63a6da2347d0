//! Removes from the workspace the files that the rigs of undone codons had copied there (RUN-20).
//!
//! A rollback calls [`clean_up`] for each undone codon before it restores files, and [`put_back`] if it then fails before any file was restored.
//! A preview calls [`places_to_remove`].

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use hankweave_core::id::CodonId;
use hankweave_core::wire::{CleanupStatus, Event, FailedDirectory};

use crate::error::chain;
use crate::recovery::LockedExecution;
use crate::rig::{RigCopies, RigCopy};
use crate::world::disk::Disk;

/// Removes the copies that a codon's rig made, and returns those that were removed. Copies that cannot be removed, such as changed ones, count as
/// failed. `kept` are the places where other codons need a copy. Publishes an event before and after, unless there is no copy.
pub(super) async fn clean_up(
    possession: &LockedExecution,
    codon_id: &CodonId,
    codon_name: String,
    kept: &BTreeSet<PathBuf>,
) -> Vec<RigCopy> {
    let found = copies_in_workspace(possession, codon_id, kept).await;
    if found.is_empty() {
        return Vec::new();
    }
    let event = |status, successful_cleanups, failed_cleanups| Event::RollbackRigCleanup {
        codon_id: codon_id.clone(),
        codon_name: codon_name.clone(),
        directories: found.iter().map(place).collect(),
        status,
        successful_cleanups,
        failed_cleanups,
        error: None,
    };
    possession
        .publish(event(CleanupStatus::Started, None, None))
        .await;
    let (removed, failed) = remove(possession, found.clone()).await;
    let status = match (removed.is_empty(), failed.is_empty()) {
        (_, true) => CleanupStatus::Completed,
        (false, false) => CleanupStatus::Partial,
        (true, false) => CleanupStatus::Failed,
    };
    let places = removed.iter().map(place).collect();
    possession
        .publish(event(status, Some(places), Some(failed)))
        .await;
    removed
}

/// Returns the copies that were removed, and those that could not be.
async fn remove(possession: &LockedExecution, found: Vec<RigCopy>) -> (Vec<RigCopy>, Vec<FailedDirectory>) {
    let work = move |copies: &RigCopies, disk: &dyn Disk| {
        let (mut removed, mut failed) = (Vec::new(), Vec::new());
        for copy in found {
            match copies.take_out(disk, &copy) {
                Ok(()) => removed.push(copy),
                Err(error) => failed.push(FailedDirectory {
                    directory: place(&copy),
                    error: chain(&error),
                }),
            }
        }
        (removed, failed)
    };
    with_copies(possession, work).await
}

/// Makes again the copies that [`clean_up`] has removed.
pub(super) async fn put_back(possession: &LockedExecution, removed: Vec<RigCopy>) {
    let work = move |copies: &RigCopies, disk: &dyn Disk| {
        for copy in removed {
            if let Err(error) = copies.put_back(disk, &copy) {
                tracing::warn!(error = %chain(&error), to = %copy.to.display(), "a copy of a rig could not be made again");
            }
        }
    };
    with_copies(possession, work).await;
}

/// Returns the places of the copies that [`clean_up`] would remove. Changes nothing.
pub(super) async fn places_to_remove(
    possession: &LockedExecution,
    codon_id: &CodonId,
    kept: &BTreeSet<PathBuf>,
) -> Vec<String> {
    let found = copies_in_workspace(possession, codon_id, kept).await;
    let work = move |copies: &RigCopies, disk: &dyn Disk| {
        let removable = found.iter().filter(|copy| copies.can_take_out(disk, copy));
        removable.map(place).collect()
    };
    with_copies(possession, work).await
}

/// Returns the place of a copy, relative to the workspace, as events have it.
pub(super) fn place(copy: &RigCopy) -> String {
    copy.to.to_string_lossy().into_owned()
}

/// Returns the copies of a codon that are in the workspace, without those at the places of `kept`.
async fn copies_in_workspace(
    possession: &LockedExecution,
    codon_id: &CodonId,
    kept: &BTreeSet<PathBuf>,
) -> Vec<RigCopy> {
    // Copies belong to the codon in the hank, whatever iteration of its loop made them.
    let (configured, kept) = (codon_id.configured().to_owned(), kept.clone());
    let work = move |copies: &RigCopies, disk: &dyn Disk| {
        let kept = kept.iter().map(PathBuf::as_path).collect();
        let found = copies.found(disk, &configured, &kept);
        found.into_iter().cloned().collect()
    };
    with_copies(possession, work).await
}

/// Runs `work` with the rigs' copies, on a blocking thread.
async fn with_copies<T: Send + 'static>(
    possession: &LockedExecution,
    work: impl FnOnce(&RigCopies, &dyn Disk) -> T + Send + 'static,
) -> T {
    let (copies, disk) = (Arc::clone(&possession.rig_copies), possession.world.disk.clone());
    possession.world.blocking.run(move || work(&copies, &*disk)).await
}
