//! Removes the logs of old runs, and the checkpoints that nothing else needs (RUN-23). `hankweave cleanup` calls [`plan`], asks the user, and
//! then calls [`clean_up`].
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

/// Why a cleanup failed. Recorded removals that were not carried out are finished by the next cleanup.
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

/// A run whose logs are removed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OldRun {
    /// Its id.
    pub run_id: RunId,
    /// Its start.
    pub began: Timestamp,
    /// Number of codons that it executed.
    pub codons: usize,
    /// Length of its logs, in bytes.
    pub bytes: u64,
}

/// Items that a cleanup would remove.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CleanupPlan {
    /// The runs whose logs are removed, newest first.
    pub runs: Vec<OldRun>,
    /// The checkpoints to which no rollback will be possible afterwards.
    pub checkpoints: BTreeSet<CheckpointSha>,
    /// Number of bytes by which the repository of checkpoints will be shorter.
    pub checkpoint_bytes: u64,
}

/// Items that a cleanup removed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CleanupReport {
    /// Id of the cleanup in the log of operations; `None` when nothing was recorded.
    pub operation: Option<String>,
    /// Number of bytes by which the repository of checkpoints is shorter.
    pub freed: u64,
}

impl CleanupPlan {
    /// Whether nothing would be removed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.checkpoints.is_empty()
    }

    /// Total length of the logs, in bytes.
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
    let (remove, keep) = removed_and_kept(&state, &checkpoints);
    let measured = possession.with_checkpoints(move |store| store.measure_clean(&remove, &keep));
    let checkpoint_bytes = measured.await.map_err(CleanupError::History)?;
    let (disk, dir) = (possession.world.disk.clone(), possession.dir.clone());
    let measure_logs = move || -> Result<Vec<OldRun>, IoError> {
        let old = runs.iter().filter_map(|id| state.run(id));
        let measured = old.map(|run| {
            let folder = dir.run_folder(&run.run_id);
            Ok(OldRun {
                run_id: run.run_id.clone(),
                began: run.start_time,
                codons: run.codons.len(),
                bytes: length_of(&*disk, &folder).map_err(IoError::at("look at", &folder))?,
            })
        });
        measured.collect()
    };
    let runs = possession
        .world
        .blocking
        .run(measure_logs)
        .await
        .map_err(CleanupError::Look)?;
    Ok(CleanupPlan {
        runs,
        checkpoints,
        checkpoint_bytes,
    })
}

/// Returns all checkpoints that this cleanup or an earlier one removes, and all recorded checkpoints that stay.
pub(super) fn removed_and_kept(
    state: &HankweaveState,
    planned: &BTreeSet<CheckpointSha>,
) -> (BTreeSet<CheckpointSha>, Vec<CheckpointSha>) {
    let mut keep = recovery::recorded_checkpoints(state);
    keep.retain(|sha| !planned.contains(sha));
    let earlier = state.removed_checkpoints().into_iter();
    (earlier.chain(planned).cloned().collect(), keep)
}

/// Removes what is planned, and what an earlier cleanup was to remove; `command` is the command line of the cleanup, for the record.
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
    let (remove, keep) = removed_and_kept(&state, &BTreeSet::new());
    let clean = possession.with_checkpoints(move |store| store.clean(&remove, &keep));
    let freed = clean.await.map_err(CleanupError::Checkpoints)?;
    Ok(CleanupReport { operation: id, freed })
}

/// Returns the record of the cleanup; `None` if nothing is planned.
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

/// Removes a folder with everything in it, if it exists, also from the spare copy of the record.
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
