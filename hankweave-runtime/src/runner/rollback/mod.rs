//! Rollbacks: restore the files of an earlier checkpoint, and record the position from which the next run continues (RUN-19).
//!
//! A user asks for a rollback to a target ([`preview`], [`go_back`]); a run that continues at the last success rolls back by itself
//! ([`preview_of_run`], [`go_back_to`]), and then keeps the files that the user has changed since.
//!
//! The rollback is recorded before the first file changes, with the safety checkpoint, which has the files as they
//! were. It is recorded as done after the last file. So a restore that was interrupted is finished by the next start (G8).

mod archive;
mod error;
mod events;
mod find;
mod kept;
mod restore;
mod route;
mod undone;

use std::sync::Arc;

use hankweave_core::codon::CheckpointType;
use hankweave_core::document::{ContinuationSource, PendingRollback};
use hankweave_core::id::{CheckpointSha, CodonId};
use hankweave_core::thread;
use hankweave_core::wire::Event;

use self::archive::archived;
use self::error::rollback_changed_nothing;
use self::events::{arrived, failed, publish_arrival, started, undo_codons};
use self::find::{find, left_by_run};
use self::kept::{KeptFiles, unsaved};
use self::restore::{check_survivors, ends_newest, finish_restore, protect, record, request};
use self::route::RollbackPlan;
use self::undone::{Ends, NewFiles};
use super::approval;
use super::rig_cleanup::{place, places_to_remove, put_back};
use super::target::{OperationCause, RollbackTarget};
use crate::checkpoint::{Protection, RestoreError, RestorePlan, TreePath, named};
use crate::recovery::LockedExecution;

pub use self::error::RollbackError;
pub(crate) use self::find::{known_checkpoints, restorable};
pub(super) use self::restore::{finish, leave_cut_off};
pub(super) use self::undone::UndoneWork;

/// A rollback, carried out or previewed.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Rollback {
    /// Position from which the next run continues.
    pub source: ContinuationSource,
    /// At which point of the codon the checkpoint was made.
    pub checkpoint_type: Option<CheckpointType>,
    /// Effect on the files; in a preview, the possible effect.
    pub files: RestorePlan,
    /// Files that are moved back from the archive, because their places are free.
    pub unarchived: Vec<String>,
    /// Unchanged copies that the rigs of the undone codons had made; they are removed.
    pub rig_copies: Vec<String>,
    /// Files that a crash has left and that are in no checkpoint; they stay.
    pub kept: Vec<TreePath>,
    /// The checkpoint that keeps the files as they were; `None` when no file had to change, and in a preview.
    pub safety: Option<CheckpointSha>,
    /// The codon that runs next; `None` when the target codon had failed, or was the last one.
    pub next: Option<CodonId>,
    /// Whether the target codon had failed.
    pub failed: bool,
    /// The operation that is undone, if this is an undo.
    pub undoes: Option<String>,
    /// Record of the rollback once it is done; in a preview, the record that it would have.
    pub record: PendingRollback,
}

impl Rollback {
    /// Names the files that are in no checkpoint; `None` if there are none.
    #[must_use]
    pub fn kept_words(&self) -> Option<String> {
        let names = named(self.kept.iter().map(ToString::to_string));
        (!self.kept.is_empty()).then(|| format!("not in any checkpoint, so kept: {names}"))
    }

    fn kept_event(&self) -> Option<Event> {
        self.kept_words().map(|message| Event::Info { message })
    }
}

/// Finds out what a rollback to `target` would change. Changes no file.
pub(crate) async fn preview(
    possession: &LockedExecution,
    target: &RollbackTarget,
) -> Result<Rollback, RollbackError> {
    let route = find(possession, possession.manager.snapshot(), target).await?;
    let archived = archived(possession, &route.source, route.left.clone()).await?;
    let (undone, kept) = (route.codons(), route.kept_copies(possession));
    let mut rig_copies = Vec::new();
    for entry in undone {
        // Iterations and attempts of one codon, and rigs of several codons, may name the same place.
        for place in places_to_remove(possession, entry.codon.codon_id(), &kept).await {
            if !rig_copies.contains(&place) {
                rig_copies.push(place);
            }
        }
    }
    let request = request(possession, &route.source.checkpoint_sha, route.left.clone());
    let plan = possession
        .with_checkpoints(move |store| store.plan_restore(&request))
        .await;
    let plan = plan.map_err(RollbackError::Restore)?;
    let unsaved = unsaved(possession, &route).await;
    let record = PendingRollback {
        operation: route.operation(possession, None, &plan),
        ..route.pending()
    };
    Ok(Rollback {
        rig_copies,
        kept: unsaved,
        ..route.rollback(plan, archived, record)
    })
}

/// Finds out which files a run would change that rolls back to `source` by itself. Changes no file. `work` is as for [`go_back_to`].
pub(crate) async fn preview_of_run(
    possession: &LockedExecution,
    source: ContinuationSource,
    work: Option<UndoneWork>,
) -> Result<RestorePlan, RollbackError> {
    let state = possession.manager.snapshot();
    let thread = thread::build(&state, None, None);
    let left = left_by_run(&state, &thread, &known_checkpoints(possession).await?);
    let spares_changed = ends_newest(&state, None, left.as_ref());
    let target = work.as_ref().map_or(&source.checkpoint_sha, UndoneWork::start);
    let mut request = request(possession, target, left);
    let disk = Arc::clone(&possession.world.disk);
    let plan = possession.with_checkpoints(move |store| {
        let new = work
            .map(|work| work.new_files(store, &*disk))
            .transpose()?
            .flatten();
        // After a crash the rollback of a run starts from a new checkpoint of the files that were left (`UndoneWork::narrow`). That checkpoint has the
        // files that the work made, and lacks those that stay; a preview makes no checkpoint and corrects the plan instead.
        request.spares_changed = spares_changed && new.is_none();
        let mut plan = store.plan_restore(&request)?;
        let NewFiles { made, stay } = new.unwrap_or_default();
        plan.delete.retain(|path| !stay.contains(path));
        plan.delete.extend(made);
        plan.spared.extend(stay);
        for paths in [&mut plan.delete, &mut plan.spared] {
            paths.sort_unstable();
            paths.dedup();
        }
        Ok::<_, RestoreError>(plan)
    });
    plan.await.map_err(RollbackError::Restore)
}

/// Rolls back to `target` for a user: restores the files and records where the next run continues.
pub(crate) async fn go_back(
    possession: &LockedExecution,
    target: &RollbackTarget,
) -> Result<Rollback, RollbackError> {
    let finished = finish(possession).await;
    let mut state = possession.manager.snapshot();
    match finished {
        // The interrupted rollback is ignored from here on; the new one replaces its record once the target is known to exist.
        Err(RollbackError::CutOff { .. }) => Arc::make_mut(&mut state).pending_rollback = None,
        finished => finished?,
    }
    let route = find(possession, state, target).await?;
    // The user has to approve again what follows the target.
    approval::withdraw(&possession.manager).await?;
    roll_back(possession, route, &KeptFiles::default()).await
}

/// Rolls back to `source`, whose checkpoint is known to exist, for a run that continues there by itself. `work` is the undone work, if the files with which it
/// began are known. `patterns` select the files of the workspace that count.
pub(crate) async fn go_back_to(
    possession: &LockedExecution,
    source: ContinuationSource,
    work: Option<UndoneWork>,
    patterns: Vec<String>,
) -> Result<Rollback, RollbackError> {
    let state = possession.manager.snapshot();
    let thread = thread::build(&state, None, None);
    let left = left_by_run(&state, &thread, &known_checkpoints(possession).await?);
    let mut ends = Ends { source, left };
    let mut kept = match work {
        Some(work) => work.narrow(possession, &mut ends).await?,
        None => KeptFiles::default(),
    };
    let Ends { source, left } = ends;
    if let Some(left) = left.as_ref().filter(|left| ends_newest(&state, None, Some(left))) {
        kept.find_new(
            possession,
            patterns,
            [left.clone(), source.checkpoint_sha.clone()],
        )
        .await;
    }
    let route = RollbackPlan {
        state,
        thread,
        source,
        left,
        cause: OperationCause::of_a_run(),
    };
    roll_back(possession, route, &kept).await
}

/// Carries out a rollback: makes the safety checkpoint, records the rollback, undoes the rigs of codons, and restores the files. `kept` are the user's files
/// that stay, for messages.
async fn roll_back(
    possession: &LockedExecution,
    route: RollbackPlan,
    kept: &KeptFiles,
) -> Result<Rollback, RollbackError> {
    check_survivors(possession)?;
    // Recorded again if the restore fails before it changes a file.
    let recorded_before = possession.manager.snapshot().pending_rollback.clone();
    let archived = archived(possession, &route.source, route.left.clone()).await?;
    let mut pending = PendingRollback {
        restored: false,
        ..route.pending()
    };
    let protection = protect(possession, &pending, route.cause.is_of_a_run()).await;
    if let Err(error) = &protection {
        possession.publish(failed(error)).await;
    }
    let Protection { plan, safety } = protection?;
    pending.safety = safety.map(|safety| safety.sha);
    pending.operation = route.operation(possession, pending.safety.as_ref(), &plan);
    let unsaved = match route.cause.is_of_a_run() {
        true => Vec::new(),
        false => unsaved(possession, &route).await,
    };
    let mut rollback = Rollback {
        safety: pending.safety.clone(),
        kept: unsaved,
        ..route.rollback(plan, archived, pending.clone())
    };
    rollback.record.restored = true;
    if let Some(safety) = &rollback.safety {
        let safety = safety.short();
        let message = format!("what is replaced is kept in checkpoint {safety}, to which one can roll back");
        possession.publish(Event::Info { message }).await;
    }
    possession.publish(started(&route, &rollback)).await;
    let mut removed_copies = Vec::new();
    let restore = async {
        record(possession, Some(pending.clone())).await?;
        removed_copies = undo_codons(possession, &route).await;
        finish_restore(possession, pending).await
    };
    match restore.await {
        Ok(changed) => {
            rollback.rig_copies = removed_copies.iter().map(place).collect();
            possession.publish(arrived(&rollback, changed)).await;
            for event in kept.events(&rollback).into_iter().chain(rollback.kept_event()) {
                possession.publish(event).await;
            }
            publish_arrival(possession, &route.state, &rollback).await;
            Ok(rollback)
        }
        Err(error) => {
            possession.publish(failed(&error)).await;
            if rollback_changed_nothing(&error) {
                put_back(possession, removed_copies).await;
                record(possession, recorded_before).await?;
            }
            Err(error)
        }
    }
}
