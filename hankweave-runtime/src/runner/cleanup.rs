//! Removing what old runs have left: their logs, and the checkpoints that nothing else needs (RUN-23).
//!
//! The removals are recorded before the first file is removed, so a cleanup that crashed is finished by the next one. No
//! file of the workspace changes, and the costs of runs stay on record.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use hankweave_core::document::{HankweaveState, Operation, OperationKind, Removed};
use hankweave_core::event::StateEvent;
use hankweave_core::id::{CheckpointSha, RunId};
use hankweave_core::machine::Extra;
use hankweave_core::thread::{self, Removable, RetentionRule};
use hankweave_core::time::Timestamp;

use crate::checkpoint::HistoryError;
use crate::recovery::{self, LockedExecution};
use crate::state_manager::TransitionError;
use crate::world::disk::{Disk, FileKind, IoError};

/// Why nothing was cleaned up, or not all of it. What is on record is finished by the next cleanup.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CleanupError {
    /// The checkpoints cannot be read, so what is needed is unknown; nothing was changed.
    #[error("failed to read the checkpoints")]
    History(#[source] HistoryError),
    /// The logs cannot be read; nothing was changed.
    #[error("failed to look at the logs of old runs")]
    Look(#[source] IoError),
    /// The cleanup could not be recorded; nothing was changed.
    #[error("failed to record the cleanup")]
    Record(#[from] TransitionError),
    /// Logs could not be removed.
    #[error("failed to remove the logs of old runs")]
    Logs(#[source] IoError),
    /// Checkpoints could not be removed.
    #[error("failed to remove old checkpoints")]
    Checkpoints(#[source] HistoryError),
}

/// A run whose logs go.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OldRun {
    /// Its id.
    pub run_id: RunId,
    /// When it began.
    pub began: Timestamp,
    /// How many codons it executed.
    pub codons: usize,
    /// How long its logs are, in bytes.
    pub bytes: u64,
}

/// Items that a cleanup would remove.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CleanupPlan {
    /// The runs whose logs go, newest first.
    pub runs: Vec<OldRun>,
    /// The checkpoints to which no rollback will be possible afterwards.
    pub checkpoints: BTreeSet<CheckpointSha>,
    /// How many bytes the repository of checkpoints will be shorter: what nothing else needs.
    pub checkpoint_bytes: u64,
}

/// Items that a cleanup removed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CleanupReport {
    /// Its name in the log of operations; `None` when nothing continued record.
    pub operation: Option<String>,
    /// How many bytes the repository of checkpoints is shorter.
    pub freed: u64,
}

impl CleanupPlan {
    /// Whether nothing would be removed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.checkpoints.is_empty()
    }

    /// How long the logs are, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.bytes).sum()
    }
}

/// Lists the items to remove by `rule`. Changes nothing.
pub(crate) async fn plan(
    possession: &LockedExecution,
    rule: RetentionRule,
) -> Result<CleanupPlan, CleanupError> {
    let state = possession.manager.snapshot();
    let known = possession.with_checkpoints(|store| store.list()).await;
    let known = known.map_err(CleanupError::History)?;
    let Removable { runs, checkpoints } =
        thread::removable(&state, rule, |sha| known.get(sha)?.before.clone());
    let (gone, keep) = all_gone(&state, &checkpoints);
    let measured = possession.with_checkpoints(move |store| store.measure_clean(&gone, &keep));
    let checkpoint_bytes = measured.await.map_err(CleanupError::History)?;
    let (disk, dir) = (possession.world.disk.clone(), possession.dir.clone());
    let look = move || -> Result<Vec<OldRun>, IoError> {
        let old = runs.iter().filter_map(|id| state.run(id));
        let look = old.map(|run| {
            let folder = dir.run_folder(&run.run_id);
            Ok(OldRun {
                run_id: run.run_id.clone(),
                began: run.start_time,
                codons: run.codons.len(),
                bytes: length_of(&*disk, &folder).map_err(IoError::at("look at", &folder))?,
            })
        });
        look.collect()
    };
    let runs = possession
        .world
        .blocking
        .run(look)
        .await
        .map_err(CleanupError::Look)?;
    Ok(CleanupPlan {
        runs,
        checkpoints,
        checkpoint_bytes,
    })
}

/// Every checkpoint that this cleanup or an earlier one removes, and those that the document names and that stay.
pub(super) fn all_gone(
    state: &HankweaveState,
    planned: &BTreeSet<CheckpointSha>,
) -> (BTreeSet<CheckpointSha>, Vec<CheckpointSha>) {
    let mut keep = recovery::recorded_checkpoints(state);
    keep.retain(|sha| !planned.contains(sha));
    let earlier = state.removed_checkpoints().into_iter();
    (earlier.chain(planned).cloned().collect(), keep)
}

/// Removes what is planned, and what an earlier cleanup was to remove; `command` is how it was asked for.
pub(crate) async fn clean_up(
    possession: &LockedExecution,
    plan: &CleanupPlan,
    command: &str,
) -> Result<CleanupReport, CleanupError> {
    let operation = operation(possession, plan, command);
    let id = operation.as_ref().map(|operation| operation.id.clone());
    if let Some(operation) = operation {
        let event = StateEvent::OperationRecorded { operation };
        possession.manager.transition(event).await.await?;
    }
    let state = possession.manager.snapshot();
    remove_logs(possession, &state).await?;
    let (gone, keep) = all_gone(&state, &BTreeSet::new());
    let clean = possession.with_checkpoints(move |store| store.clean(&gone, &keep));
    let freed = clean.await.map_err(CleanupError::Checkpoints)?;
    Ok(CleanupReport { operation: id, freed })
}

fn operation(possession: &LockedExecution, plan: &CleanupPlan, command: &str) -> Option<Operation> {
    if plan.is_empty() {
        return None;
    }
    let state = possession.manager.snapshot();
    let head = thread::head(&state)?;
    Some(Operation {
        id: thread::name(&possession.world.ids.nonce()),
        kind: OperationKind::Cleanup,
        command: command.to_owned(),
        at: possession.world.clock.now(),
        behind: state.runs.front()?.run_id.clone(),
        before: head.clone(),
        after: head,
        undoes: None,
        files: 0,
        removed: Some(Removed {
            runs: plan.runs.iter().map(|run| run.run_id.clone()).collect(),
            checkpoints: plan.checkpoints.iter().cloned().collect(),
            bytes: plan.bytes(),
            extra: Extra::default(),
        }),
        extra: Extra::default(),
    })
}

/// Removes the folders of all runs that cleanups have recorded; missing folders are no error.
async fn remove_logs(possession: &LockedExecution, state: &HankweaveState) -> Result<(), CleanupError> {
    let removed = state.removed().flat_map(|removed| &removed.runs);
    let folders: Vec<_> = removed.map(|run| possession.dir.run_folder(run)).collect();
    let disk = possession.world.disk.clone();
    let remove = move || -> Result<(), IoError> {
        folders
            .iter()
            .try_for_each(|folder| remove_folder(&*disk, folder).map_err(IoError::at("remove", folder)))
    };
    possession
        .world
        .blocking
        .run(remove)
        .await
        .map_err(CleanupError::Logs)
}

/// Removes a folder with everything in it, if it is there.
fn remove_folder(disk: &dyn Disk, folder: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (folder.parent(), folder.file_name()) else {
        return Ok(());
    };
    match disk.metadata(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(_) => {
            disk.open_folder(parent)?.remove(name)?;
            if let Some(spare) = disk.spares().and_then(|spares| spares.of(folder)) {
                spare.forget_folder(folder);
            }
            Ok(())
        }
    }
}

/// Returns the total length of all files inside a folder, 0 if it does not exist. Links are not followed.
fn length_of(disk: &dyn Disk, place: &Path) -> io::Result<u64> {
    let found = match disk.metadata(place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        found => found?,
    };
    match found.kind {
        FileKind::File => Ok(found.length),
        FileKind::Directory => {
            let names = disk.list_dir(place)?;
            names.iter().map(|name| length_of(disk, &place.join(name))).sum()
        }
        _ => Ok(0),
    }
}
