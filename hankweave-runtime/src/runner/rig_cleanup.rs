//! What the rigs of codons that are gone back on had copied is taken out of the workspace (RUN-20).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hankweave_core::id::CodonId;
use hankweave_core::wire::{CleanupStatus, Event, FailedDirectory};

use crate::error::chain;
use crate::recovery::Possession;
use crate::rig::RigCopy;

/// Takes out the untouched copies of a codon, tells it, and returns those that are gone. `kept` are the places where others need a copy.
pub(super) async fn clean_up(
    possession: &Possession,
    (codon_id, codon_name): (&CodonId, String),
    kept: &BTreeSet<PathBuf>,
) -> Vec<RigCopy> {
    let (copies, disk) = (Arc::clone(&possession.rig_copies), possession.world.disk.clone());
    let (codon, kept) = (codon_id.configured().to_owned(), kept.clone());
    let looked = possession.world.blocking.run(move || {
        let kept = kept.iter().map(PathBuf::as_path).collect();
        let found = copies.found(&*disk, &codon, &kept);
        found.into_iter().cloned().collect::<Vec<RigCopy>>()
    });
    let found = looked.await;
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
    // Losing receipts is harmless: a journal that cannot be written shows up in the next transition.
    drop(possession.manager.record(cleanup(CleanupStatus::Started)).await);
    let (copies, disk) = (Arc::clone(&possession.rig_copies), possession.world.disk.clone());
    let wanted = found.clone();
    let work = move || {
        let take_out = |copy: RigCopy| {
            let taken = copies.take_out(&*disk, &copy).map_err(|error| chain(&error));
            (copy, taken)
        };
        wanted.into_iter().map(take_out).collect::<Vec<_>>()
    };
    let (mut gone, mut failed) = (Vec::new(), Vec::new());
    for (copy, taken) in possession.world.blocking.run(work).await {
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
    drop(possession.manager.record(event).await);
    gone
}

/// The copies of a codon that would be taken out now. Changes nothing.
pub(super) async fn untouched(
    possession: &Possession,
    codon_id: &CodonId,
    kept: &BTreeSet<PathBuf>,
) -> Vec<String> {
    let (copies, disk) = (Arc::clone(&possession.rig_copies), possession.world.disk.clone());
    let (codon, kept) = (codon_id.configured().to_owned(), kept.clone());
    let work = move || {
        let kept = kept.iter().map(PathBuf::as_path).collect();
        let found = copies.found(&*disk, &codon, &kept).into_iter();
        let untouched = found.filter(|copy| copies.can_take_out(&*disk, copy));
        untouched.map(place).collect()
    };
    possession.world.blocking.run(work).await
}

/// Makes copies again, because nothing was gone back on after all.
pub(super) async fn put_back(possession: &Possession, gone: Vec<RigCopy>) {
    let (copies, disk) = (Arc::clone(&possession.rig_copies), possession.world.disk.clone());
    let work = move || {
        for copy in gone {
            if let Err(error) = copies.put_back(&*disk, &copy) {
                tracing::warn!(error = %chain(&error), to = %copy.to.display(), "a copy of a rig could not be made again");
            }
        }
    };
    possession.world.blocking.run(work).await;
}

pub(super) fn place(copy: &RigCopy) -> String {
    Path::to_string_lossy(&copy.to).into_owned()
}
