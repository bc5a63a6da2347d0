//! Restores the files of a checkpoint for a rollback, records that, and finishes a restore that was interrupted (G8).

use hankweave_core::document::{HankweaveState, Operation, PendingRollback};
use hankweave_core::event::StateEvent;
use hankweave_core::id::{CheckpointSha, CodonId};
use hankweave_core::thread;
use hankweave_core::wire::{Event, ProgressKind};

use super::RollbackError;
use super::archive::unarchive;
use super::error::{cannot_be_read, restore_changed_nothing};
use crate::checkpoint::{Protection, RestoreRequest, changed_files};
use crate::codon::await_with_progress;
use crate::recovery::LockedExecution;

/// Finishes a restore that was interrupted, if there is one (G8).
///
/// # Errors
///
/// [`RollbackError`]; the restore is then still unfinished, and after [`CutOff`](RollbackError::CutOff) it can never be finished.
pub(in super::super) async fn finish(possession: &LockedExecution) -> Result<(), RollbackError> {
    let pending = possession.manager.snapshot().pending_rollback.clone();
    let Some(pending) = pending.filter(|pending| !pending.restored) else {
        return Ok(());
    };
    check_survivors(possession)?;
    let (target, safety) = (pending.source.checkpoint_sha.clone(), pending.safety.clone());
    let finished = resume(possession, pending).await;
    let kept = finished.map_err(|error| match cannot_be_read(&error) {
        true => RollbackError::CutOff {
            target: target.clone(),
            safety,
            source: Box::new(error),
        },
        false => error,
    })?;
    let message = format!(
        "rolling back to checkpoint {} had been interrupted and was finished{kept}",
        target.short()
    );
    possession.publish(Event::Info { message }).await;
    Ok(())
}

/// Restores the files that were not restored yet, and returns the end of a message about the changes.
async fn resume(possession: &LockedExecution, mut pending: PendingRollback) -> Result<String, RollbackError> {
    // Nothing had to be saved when the rollback was recorded, but files may have changed since.
    if pending.safety.is_none() {
        let protection = protect(possession, &pending, is_of_a_run(&pending)).await?;
        pending.safety = protection.safety.map(|safety| safety.sha);
        if let (Some(operation), Some(safety)) = (&mut pending.operation, &pending.safety) {
            operation.before.checkpoint_sha = safety.clone();
        }
        record(possession, Some(pending.clone())).await?;
    }
    let safety = pending.safety.clone();
    let changed = finish_restore(possession, pending).await?;
    Ok(safety.map_or_else(String::new, |safety| {
        let safety = safety.short();
        format!(
            " ({}; the replaced files are kept in checkpoint {safety})",
            changed_files(changed)
        )
    }))
}

/// Publishes that an interrupted restore is abandoned, for a run that starts over at the first codon.
pub(in crate::runner) async fn leave_cut_off(
    possession: &LockedExecution,
    target: &CheckpointSha,
    safety: Option<&CheckpointSha>,
) {
    let kept = safety.map_or_else(String::new, |safety| {
        format!("; the replaced files are kept in checkpoint {}", safety.short())
    });
    let message = format!(
        "rolling back to checkpoint {} had been interrupted and cannot be finished; the files stay as they are{kept}",
        target.short()
    );
    possession.publish(Event::Info { message }).await;
}

/// Refuses a restore while processes of an earlier run still live (G9).
pub(super) fn check_survivors(possession: &LockedExecution) -> Result<(), RollbackError> {
    match possession.survivors {
        0 => Ok(()),
        count => Err(RollbackError::Survivors { count }),
    }
}

/// Restores the files, moves archived files back, records the rollback as done, and returns the number of changed files.
pub(super) async fn finish_restore(
    possession: &LockedExecution,
    mut pending: PendingRollback,
) -> Result<usize, RollbackError> {
    let changed = restore(possession, &pending).await?;
    unarchive(possession, &pending).await?;
    pending.restored = true;
    record(possession, Some(pending)).await?;
    Ok(changed)
}

/// The activity for progress reports while files are saved and restored; no codon belongs to it.
const RESTORE: (ProgressKind, Option<&CodonId>) = (ProgressKind::Restore, None);

/// Makes the safety checkpoint. `by_a_run` is whether a run rolls back by itself: `pending` does not show that before its operation is set.
pub(super) async fn protect(
    possession: &LockedExecution,
    pending: &PendingRollback,
    by_a_run: bool,
) -> Result<Protection, RollbackError> {
    let request = restore_of(possession, pending, by_a_run);
    let protect = possession.with_checkpoints(move |store| store.protect(&request));
    let protect = await_with_progress(&possession.manager, &possession.checkpoints, RESTORE, protect);
    protect.await.map_err(RollbackError::Restore)
}

/// Restores the files and returns the number of changed files.
async fn restore(possession: &LockedExecution, pending: &PendingRollback) -> Result<usize, RollbackError> {
    let request = restore_of(possession, pending, is_of_a_run(pending));
    let restore = possession.with_checkpoints(move |store| store.restore(&request));
    let restore = await_with_progress(&possession.manager, &possession.checkpoints, RESTORE, restore);
    match (restore.await, &pending.safety) {
        (Ok(report), _) => Ok(report.done.count()),
        (Err(source), Some(safety)) if !restore_changed_nothing(&source) => Err(RollbackError::Interrupted {
            safety: safety.clone(),
            source,
        }),
        (Err(error), _) => Err(RollbackError::Restore(error)),
    }
}

/// Returns the request for the restore of a recorded rollback.
fn restore_of(possession: &LockedExecution, pending: &PendingRollback, by_a_run: bool) -> RestoreRequest {
    let state = possession.manager.snapshot();
    RestoreRequest {
        safety: pending.safety.clone(),
        spares_changed: by_a_run && ends_newest(&state, pending.operation.as_ref(), pending.left.as_ref()),
        ..request(possession, &pending.source.checkpoint_sha, pending.left.clone())
    }
}

/// Whether a run rolls back by itself. It keeps the user's changes, whereas a user who rolls back wants the files of the target.
fn is_of_a_run(pending: &PendingRollback) -> bool {
    pending.operation.is_some() && !pending.is_chosen()
}

/// Whether `left` is the checkpoint with which the newest codon ended, so that the user made all later differences. `operation` is
/// the operation of a rollback that is recorded already: then only the operation still has the position before the rollback.
pub(super) fn ends_newest(
    state: &HankweaveState,
    operation: Option<&Operation>,
    left: Option<&CheckpointSha>,
) -> bool {
    let before = operation.map(|operation| operation.before.clone());
    let before = before.or_else(|| thread::head(state));
    let end = before.and_then(|before| thread::end_at(state, &before).cloned());
    end.is_some() && end.as_ref() == left
}

/// Returns a request that restores all files of `target`.
pub(super) fn request(
    possession: &LockedExecution,
    target: &CheckpointSha,
    left: Option<CheckpointSha>,
) -> RestoreRequest {
    RestoreRequest {
        target: target.clone(),
        left,
        spares_changed: false,
        safety: None,
        at: possession.world.clock.now(),
    }
}

/// Records a rollback, or with `None` that there is none. A rollback that is done also sets the plan that was valid at its target.
pub(super) async fn record(
    possession: &LockedExecution,
    rollback: Option<PendingRollback>,
) -> Result<(), RollbackError> {
    let restored = rollback.as_ref().filter(|rollback| rollback.restored);
    let state = possession.manager.snapshot();
    let execution_plan = restored.and_then(|rollback| state.left_plan_at(&rollback.source).cloned());
    let event = StateEvent::RollbackPending {
        rollback,
        execution_plan,
    };
    possession.manager.transition(event).await.await?;
    Ok(())
}
