//! Rolling back: restoring the files of an earlier checkpoint, for a run that goes on from there (RUN-19).
//!
//! The rollback is recorded before the first file changes, with the safety checkpoint of the files as they
//! were, and it is recorded as done after the last one. So a restore that was interrupted is finished by the
//! next start (G8). The next run continues from there.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hankweave_core::codon::CheckpointType;
use hankweave_core::document::{
    CheckpointFacts, CheckpointTable, ContinuationSource, HankweaveState, Operation, PendingRollback,
};
use hankweave_core::event::StateEvent;
use hankweave_core::id::{CheckpointSha, CodonId};
use hankweave_core::machine::Extra;
use hankweave_core::thread::{self, ExecutionThread, TargetError, ThreadCodon};
use hankweave_core::time::Timestamp;
use hankweave_core::wire::{Event, FailedPath, ProgressKind, RestoreStatus};

use super::aftermath::archive;
use super::approval;
use super::rig_cleanup::{clean_up, place, put_back, untouched};
use super::target::{Cause, RollbackTarget};
use crate::checkpoint::{
    CheckpointStore, HistoryError, KnownCheckpoint, Protection, RestoreError, RestorePlan, RestoreRequest,
};
use crate::codon::telling;
use crate::recovery::{self, Possession};
use crate::rig::{ArchiveEntry, ArchiveError, RigCopy, Taken};
use crate::state_manager::TransitionError;

/// Why a rollback failed.
#[derive(Debug, thiserror::Error)]
pub enum RollbackError {
    /// Something runs; nothing was changed.
    #[error("a codon is running")]
    Running,
    /// Files are never restored under running processes (G9); nothing was changed.
    #[error("{count} processes of an earlier run still live, so its files cannot be taken back")]
    Survivors {
        /// How many.
        count: usize,
    },
    /// There is no such target; nothing was changed.
    #[error("there is no way back to there")]
    Target(#[source] TargetError),
    /// A cleanup has removed the checkpoint of the target; nothing was changed.
    #[error(
        "checkpoint {} was removed by a cleanup (operation {operation}, {at}) and cannot be restored any more",
        sha.short()
    )]
    CleanedUp {
        /// The checkpoint.
        sha: CheckpointSha,
        /// The cleanup.
        operation: String,
        /// When it was.
        at: Timestamp,
    },
    /// No operation is left that could be undone; nothing was changed.
    #[error("there is no operation left to undo")]
    NothingToUndo,
    /// There is no such operation, or the record does not say where it ended; nothing was changed.
    #[error("no operation begins with `{0}`")]
    UnknownOperation(String),
    /// Several operations begin like this; nothing was changed.
    #[error("several operations begin with `{0}`")]
    AmbiguousOperation(String),
    /// No checkpoint of the thread exists; nothing was changed.
    #[error("no codon has a checkpoint that one could go back to")]
    NoSuccess,
    /// The checkpoints cannot be read, so the targets are unknown; nothing was changed.
    #[error("failed to read the checkpoints")]
    History(#[source] HistoryError),
    /// The files could not be restored; the error says whether some were changed.
    #[error("failed to bring back the files")]
    Restore(#[source] RestoreError),
    /// The files could not be restored, and some may have been changed.
    #[error("failed to bring back all files; what was there before is kept in checkpoint {}", safety.short())]
    Interrupted {
        /// The files as they were before the first change.
        safety: CheckpointSha,
        /// What went wrong.
        #[source]
        source: RestoreError,
    },
    /// A restore was interrupted, and its checkpoint cannot be read any more. Going on from another place
    /// abandons it.
    #[error(
        "the way back to checkpoint {} was interrupted and cannot be finished, because the checkpoint cannot be read",
        target.short()
    )]
    CutOff {
        /// The checkpoint.
        target: CheckpointSha,
        /// The files as they were before the first change.
        safety: Option<CheckpointSha>,
        /// What cannot be read.
        #[source]
        source: Box<Self>,
    },
    /// The archive cannot be used; nothing was changed, unless the files were restored already.
    #[error("failed to bring files back from the archive")]
    Archive(#[source] ArchiveError),
    /// The rollback could not be recorded.
    #[error("failed to record the rollback")]
    Record(#[from] TransitionError),
}

/// A rollback, carried out or previewed.
#[derive(Debug, Clone, PartialEq)]
pub struct Rollback {
    /// Where the next run goes on.
    pub source: ContinuationSource,
    /// At which point of the codon the checkpoint was made.
    pub checkpoint_type: Option<CheckpointType>,
    /// What happens to the files; in a preview, what would happen.
    pub files: RestorePlan,
    /// Files that come back from the archive, because their places are free.
    pub unarchived: Vec<String>,
    /// Unchanged copies, made by the rigs of the codons that are undone, which are removed.
    pub rig_copies: Vec<String>,
    /// The checkpoint that keeps the files as they were; `None` when nothing had to change, or nothing was
    /// changed.
    pub safety: Option<CheckpointSha>,
    /// The codon that runs next; `None` when the target codon had failed, or was the last one.
    pub next: Option<CodonId>,
    /// Whether the target codon had failed.
    pub failed: bool,
    /// The operation that this takes back, if it is an undo.
    pub undoes: Option<String>,
}

/// A rollback that is possible, before it is carried out.
struct Route {
    state: Arc<HankweaveState>,
    /// The thread that ends at the current state.
    thread: ExecutionThread,
    /// The target.
    source: ContinuationSource,
    /// The checkpoint of the current files.
    left: Option<CheckpointSha>,
    cause: Cause,
}

/// Finds out what a rollback to `target` would change. Changes no file.
pub(crate) async fn preview(
    possession: &Possession,
    target: &RollbackTarget,
) -> Result<Rollback, RollbackError> {
    let route = find(possession, possession.manager.snapshot(), target).await?;
    let archived = archived(possession, &route.source, route.left.clone()).await?;
    let (left, kept) = (route.codons(), route.kept_copies(possession));
    let mut rig_copies = Vec::new();
    for entry in left {
        rig_copies.extend(untouched(possession, entry.codon.codon_id(), &kept).await);
    }
    let request = request(possession, &route.source.checkpoint_sha, route.left.clone());
    let plan = possession
        .with_checkpoints(move |store| store.plan_restore(&request))
        .await;
    Ok(Rollback {
        rig_copies,
        ..route.rollback(plan.map_err(RollbackError::Restore)?, archived)
    })
}

/// Rolls back to `target`: restores the files and records where the next run goes on.
pub(crate) async fn go_back(
    possession: &Possession,
    target: &RollbackTarget,
) -> Result<Rollback, RollbackError> {
    let finished = finish(possession).await;
    let mut state = possession.manager.snapshot();
    match finished {
        // As if it had never begun: the new rollback replaces its record, as soon as that is known to be
        // possible.
        Err(RollbackError::CutOff { .. }) => Arc::make_mut(&mut state).pending_rollback = None,
        finished => finished?,
    }
    let route = find(possession, state, target).await?;
    // Who goes back wants to be asked again what comes behind it.
    approval::withdraw(&possession.manager).await?;
    roll_back(possession, route).await
}

/// The same for a target that is known to exist.
pub(crate) async fn go_back_to(
    possession: &Possession,
    source: ContinuationSource,
) -> Result<Rollback, RollbackError> {
    let state = possession.manager.snapshot();
    let thread = thread::build(&state, None, None);
    let left = left(&state, &thread, &known_checkpoints(possession).await?);
    let route = Route {
        state,
        thread,
        source,
        left,
        cause: Cause::of_a_run(),
    };
    roll_back(possession, route).await
}

async fn find(
    possession: &Possession,
    state: Arc<HankweaveState>,
    target: &RollbackTarget,
) -> Result<Route, RollbackError> {
    let known = known_checkpoints(possession).await?;
    let thread = thread::build(&state, None, Some(&known));
    if thread.has_running_codon {
        return Err(RollbackError::Running);
    }
    let source = match resolve(target, &state, &thread, &known) {
        Err(RollbackError::Target(TargetError::UnknownSha(prefix))) => {
            let kept = kept_target(possession, &state, &thread, &prefix).await?;
            let cleaned = || cleaned_up(&state, |sha| sha.as_str().starts_with(&prefix));
            let unknown = || RollbackError::Target(TargetError::UnknownSha(prefix.clone()));
            kept.ok_or_else(|| cleaned().unwrap_or_else(unknown))?
        }
        resolved => resolved?,
    };
    if let Some(error) = cleaned_up(&state, |sha| *sha == source.checkpoint_sha) {
        return Err(error);
    }
    let undone = match target {
        RollbackTarget::Undo => thread::undo(&state).map(|undo| undo.id),
        _ => None,
    };
    Ok(Route {
        source,
        left: left(&state, &thread, &known),
        state,
        thread,
        cause: target.cause(undone),
    })
}

/// Why there is no way to a checkpoint that a cleanup has removed.
fn cleaned_up(state: &HankweaveState, is_it: impl Fn(&CheckpointSha) -> bool) -> Option<RollbackError> {
    let cleanups = state.operations.iter();
    let mut cleanups = cleanups.filter_map(|cleanup| Some((cleanup, cleanup.removed.as_ref()?)));
    cleanups.find_map(|(cleanup, removed)| {
        let sha = removed.checkpoints.iter().find(|sha| is_it(sha))?;
        Some(RollbackError::CleanedUp {
            sha: sha.clone(),
            operation: cleanup.id.clone(),
            at: cleanup.at,
        })
    })
}

/// The target for a checkpoint that only the repository knows: a safety checkpoint. It is at the point of
/// history where it was made.
async fn kept_target(
    possession: &Possession,
    state: &HankweaveState,
    thread: &ExecutionThread,
    prefix: &str,
) -> Result<Option<ContinuationSource>, RollbackError> {
    let wanted = prefix.to_owned();
    let search = move |store: &dyn CheckpointStore| -> Result<_, HistoryError> {
        let known = store.known()?;
        let is_wanted = |(sha, found): &(&CheckpointSha, &KnownCheckpoint)| {
            found.kind() == SAFETY && sha.as_str().starts_with(&wanted)
        };
        let fitting: Vec<CheckpointSha> = known
            .iter()
            .filter(is_wanted)
            .map(|(sha, _)| sha.clone())
            .collect();
        Ok((store.restorable(&fitting)?, known))
    };
    let found = possession.with_checkpoints(search).await;
    let (fitting, known) = found.map_err(RollbackError::History)?;
    let mut shas = fitting.into_keys();
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
    let mut points = line.filter_map(|base| thread::standing_on(state, &base, &files));
    let newest = || {
        let newest = thread.codons.first();
        let run = state.runs.front();
        let behind = newest.map(|entry| ContinuationSource {
            after_codon: Some(entry.codon.codon_id().clone()),
            ..ContinuationSource::beginning_of(&entry.run_id)
        });
        behind.or_else(|| Some(ContinuationSource::beginning_of(&run?.run_id)))
    };
    Ok(points.next().or_else(newest).map(|source| ContinuationSource {
        checkpoint_sha: files,
        ..source
    }))
}

/// The kind of checkpoint that keeps the files as they were before a restore.
const SAFETY: &str = "safety";

async fn roll_back(possession: &Possession, route: Route) -> Result<Rollback, RollbackError> {
    check_survivors(possession)?;
    let recorded = possession.manager.snapshot().pending_rollback.clone();
    let archived = archived(possession, &route.source, route.left.clone()).await?;
    let mut pending = PendingRollback {
        source: route.source.clone(),
        left: route.left.clone(),
        safety: None,
        restored: false,
        operation: None,
        extra: Extra::default(),
    };
    let protection = protect(possession, &pending).await;
    if let Err(error) = &protection {
        possession.publish(failed(error)).await;
    }
    let Protection { plan, safety } = protection?;
    pending.safety = safety.map(|safety| safety.sha);
    pending.operation = route.operation(possession, pending.safety.as_ref(), &plan);
    let mut rollback = Rollback {
        safety: pending.safety.clone(),
        ..route.rollback(plan, archived)
    };
    if let Some(safety) = &rollback.safety {
        let message = format!("the files as they were are kept in checkpoint {}", safety.short());
        possession.publish(Event::Info { message }).await;
    }
    possession.publish(started(&route, &rollback)).await;
    let mut cleaned = Vec::new();
    let going_back = async {
        record(possession, Some(pending.clone())).await?;
        cleaned = undo_codons(possession, &route).await;
        finish_restore(possession, pending).await
    };
    match going_back.await {
        Ok(changed) => {
            rollback.rig_copies = cleaned.iter().map(place).collect();
            possession.publish(arrived(&rollback, changed)).await;
            publish_arrival(possession, &route.state, &rollback).await;
            Ok(rollback)
        }
        Err(error) => {
            possession.publish(failed(&error)).await;
            if changed_nothing(&error) {
                put_back(possession, cleaned).await;
                record(possession, recorded).await?;
            }
            Err(error)
        }
    }
}

impl Route {
    /// The codons that are undone, newest first.
    fn codons(&self) -> Vec<&ThreadCodon> {
        let kept = self.ahead().codons;
        let place = |entry: &ThreadCodon| (entry.run_id.clone(), entry.codon_index_in_run);
        let kept: BTreeSet<_> = kept.iter().map(place).collect();
        let codons = self.thread.codons.iter();
        codons
            .filter(|entry| !is_target(entry, &self.source) && !kept.contains(&place(entry)))
            .collect()
    }

    /// The thread as it will be.
    fn ahead(&self) -> ExecutionThread {
        let mut ahead = HankweaveState::clone(&self.state);
        ahead.pending_rollback = Some(PendingRollback {
            source: self.source.clone(),
            left: None,
            safety: None,
            restored: true,
            operation: None,
            extra: Extra::default(),
        });
        thread::build(&ahead, None, None)
    }

    /// What will be on record when the files are back; `safety` has them as they are now, if anything changes.
    fn operation(
        &self,
        possession: &Possession,
        safety: Option<&CheckpointSha>,
        plan: &RestorePlan,
    ) -> Option<Operation> {
        let target = &self.source.checkpoint_sha;
        let files = match plan.write.is_empty() && plan.delete.is_empty() {
            true => target,
            // What is only added needs no safety checkpoint.
            false => safety.or(self.left.as_ref()).unwrap_or(target),
        };
        Some(Operation {
            id: thread::name(&possession.world.ids.nonce()),
            kind: self.cause.kind,
            command: self.cause.command.clone(),
            at: possession.world.clock.now(),
            behind: self.state.runs.front()?.run_id.clone(),
            before: ContinuationSource {
                checkpoint_sha: files.clone(),
                ..thread::head(&self.state)?
            },
            after: self.source.clone(),
            undoes: self.cause.undoes.clone(),
            files: u64::try_from(plan.write.len() + plan.delete.len()).unwrap_or(u64::MAX),
            removed: None,
            extra: Extra::default(),
        })
    }

    /// Where the rigs of codons that stay have copied to.
    fn kept_copies(&self, possession: &Possession) -> BTreeSet<PathBuf> {
        let (ahead, targets) = (self.ahead().codons, self.thread.codons.iter());
        let targets = targets.filter(|entry| is_target(entry, &self.source));
        let stay = ahead.iter().chain(targets);
        let ids = stay.map(|entry| entry.codon.codon_id().configured());
        let targets = possession.rig_copies.targets(ids).into_iter();
        targets.map(Path::to_owned).collect()
    }

    /// What the rollback comes to.
    fn rollback(&self, files: RestorePlan, archived: Vec<ArchiveEntry>) -> Rollback {
        let is_written = |path: &str| {
            files
                .write
                .iter()
                .any(|written| written.as_path() == Path::new(path))
        };
        let unarchived = archived.into_iter().map(|entry| entry.source_path);
        let unarchived = unarchived.filter(|path| !is_written(path)).collect();
        let thread = self.ahead();
        Rollback {
            checkpoint_type: self.source.checkpoint_type(&self.state),
            source: self.source.clone(),
            files,
            unarchived,
            rig_copies: Vec::new(),
            safety: None,
            next: thread.next_codon_id,
            failed: thread.failed,
            undoes: self.cause.undoes.clone(),
        }
    }
}

/// Publishes the steps of a rollback: the codons that are undone, newest first, and then the files. Removes
/// the copies of their rigs, and returns those that were removed.
async fn undo_codons(possession: &Possession, route: &Route) -> Vec<RigCopy> {
    let (left, kept) = (route.codons(), route.kept_copies(possession));
    let total_steps = left.len() + 1;
    let progress = |current_step, message| Event::RollbackProgress {
        current_step,
        total_steps,
        message,
    };
    let mut gone = Vec::new();
    for (index, entry) in left.iter().enumerate() {
        let id = entry.codon.codon_id();
        possession
            .publish(progress(index + 1, format!("leaving {id}")))
            .await;
        if let Some((checkpoint_type, sha)) = entry.codon.checkpoints().last() {
            let checkpoint = Event::RollbackCodonCheckpoint {
                codon_id: id.clone(),
                codon_name: name_of(&route.state, id),
                checkpoint: sha.clone(),
                checkpoint_type: Some(checkpoint_type),
                message: "what it left can be found here".to_owned(),
            };
            possession.publish(checkpoint).await;
        }
        gone.extend(clean_up(possession, (id, name_of(&route.state, id)), &kept).await);
    }
    let target = route.source.checkpoint_sha.short();
    let message = format!("bringing back the files of checkpoint {target}");
    possession.publish(progress(total_steps, message)).await;
    gone
}

/// Publishes the last step.
async fn publish_arrival(possession: &Possession, state: &HankweaveState, rollback: &Rollback) {
    let source = &rollback.source;
    let Some(codon_id) = source.after_codon.clone() else {
        return;
    };
    let arrived = Event::RollbackCodonCheckpoint {
        codon_name: name_of(state, &codon_id),
        codon_id,
        checkpoint: source.checkpoint_sha.clone(),
        checkpoint_type: rollback.checkpoint_type,
        message: "the files are back".to_owned(),
    };
    possession.publish(arrived).await;
}

/// The name of the codon; its id when the plan does not have it any more.
fn name_of(state: &HankweaveState, id: &CodonId) -> String {
    let planned = state.execution_plan.iter().find(|entry| entry.codon_id == *id);
    let name = planned.and_then(|entry| entry.codon.name());
    name.unwrap_or(id.as_str()).to_owned()
}

fn failed(error: &RollbackError) -> Event {
    Event::Error {
        message: format!("Rollback failed: {}", crate::error::chain(error)),
        fatal: false,
        codon: None,
        severity: Some("operation".to_owned()),
        context: None,
        code: Some("ROLLBACK_FAILED".to_owned()),
    }
}

fn is_target(entry: &ThreadCodon, source: &ContinuationSource) -> bool {
    let is_after = Some(entry.codon.codon_id()) == source.after_codon.as_ref();
    // A checkpoint of a rig is after no codon; the codon of the rig goes on from there.
    let mut checkpoints = entry.codon.checkpoints();
    entry.run_id == source.run_id && (is_after || checkpoints.any(|(_, sha)| *sha == source.checkpoint_sha))
}

/// Finishes a restore that was interrupted (G8).
///
/// # Errors
///
/// [`RollbackError`]; the restore is then as unfinished as before, and with [`CutOff`](RollbackError::CutOff) it stays so.
pub(crate) async fn finish(possession: &Possession) -> Result<(), RollbackError> {
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
        "going back to checkpoint {} had been interrupted and was finished{kept}",
        target.short()
    );
    possession.publish(Event::Info { message }).await;
    Ok(())
}

/// Restores what was not restored yet, and describes what that changed.
async fn resume(possession: &Possession, mut pending: PendingRollback) -> Result<String, RollbackError> {
    if pending.safety.is_none() {
        let protection = protect(possession, &pending).await?;
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
            " ({}; what was there is kept in checkpoint {safety})",
            changed_files(changed)
        )
    }))
}

/// Publishes that an interrupted restore is abandoned, for a run that begins anew.
pub(super) async fn leave_cut_off(
    possession: &Possession,
    target: &CheckpointSha,
    safety: Option<&CheckpointSha>,
) {
    let kept = safety.map_or_else(String::new, |safety| {
        format!("; what was there before is kept in checkpoint {}", safety.short())
    });
    let message = format!(
        "going back to checkpoint {} had been interrupted and cannot be finished; the files stay as they are{kept}",
        target.short()
    );
    possession.publish(Event::Info { message }).await;
}

/// Whether a checkpoint or its contents cannot be read, which trying again does not change.
fn cannot_be_read(error: &RollbackError) -> bool {
    match error {
        RollbackError::History(_) => true,
        RollbackError::Restore(source) | RollbackError::Interrupted { source, .. } => {
            matches!(source, RestoreError::History(_) | RestoreError::Contents { .. })
        }
        _ => false,
    }
}

/// Files are never restored under running processes (G9).
fn check_survivors(possession: &Possession) -> Result<(), RollbackError> {
    match possession.survivors {
        0 => Ok(()),
        count => Err(RollbackError::Survivors { count }),
    }
}

/// The recorded checkpoints that can be restored. "Could not read" must never look like "there are none"
/// (RUN-5).
pub(crate) async fn known_checkpoints(possession: &Possession) -> Result<CheckpointTable, RollbackError> {
    let known = match &possession.restorable {
        Some(known) => known.clone(),
        None => {
            let recorded = recovery::recorded_checkpoints(&possession.manager.snapshot());
            let known = possession.with_checkpoints(move |store| store.restorable(&recorded));
            known.await.map_err(RollbackError::History)?
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

/// The checkpoint of the current files: the newest one that can be read. Files that only a lost one knew
/// stay.
fn left(state: &HankweaveState, thread: &ExecutionThread, known: &CheckpointTable) -> Option<CheckpointSha> {
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
        RollbackTarget::Operation(prefix) => behind(state, prefix),
    }
}

/// Where things stood after the operation whose name begins like this.
fn behind(state: &HankweaveState, prefix: &str) -> Result<ContinuationSource, RollbackError> {
    let log = thread::operations(state);
    let mut fitting = log.iter().filter(|known| known.id().starts_with(prefix));
    match (fitting.next(), fitting.next()) {
        (Some(_), Some(_)) => Err(RollbackError::AmbiguousOperation(prefix.to_owned())),
        (found, _) => {
            let after = found.and_then(|found| found.after(state));
            after.ok_or_else(|| RollbackError::UnknownOperation(prefix.to_owned()))
        }
    }
}

fn arrived(rollback: &Rollback, changed: usize) -> Event {
    let target = rollback.source.checkpoint_sha.short();
    let message = match changed {
        0 => format!("the files are those of checkpoint {target}"),
        changed => format!("went back to checkpoint {target} ({})", changed_files(changed)),
    };
    Event::Info { message }
}

/// Restores the files, records that, and returns how many have changed.
async fn finish_restore(
    possession: &Possession,
    mut pending: PendingRollback,
) -> Result<usize, RollbackError> {
    let changed = restore(possession, &pending).await?;
    unarchive(possession, &pending).await?;
    pending.restored = true;
    record(possession, Some(pending)).await?;
    Ok(changed)
}

/// What is told while files are saved and taken back.
const RESTORE: (ProgressKind, Option<&CodonId>) = (ProgressKind::Restore, None);

/// Makes a safety checkpoint.
async fn protect(possession: &Possession, pending: &PendingRollback) -> Result<Protection, RollbackError> {
    let request = restore_of(possession, pending);
    let protect = possession.with_checkpoints(move |store| store.protect(&request));
    let protect = telling(&possession.manager, &possession.checkpoints, RESTORE, protect);
    protect.await.map_err(RollbackError::Restore)
}

/// Restores the files and returns how many have changed.
async fn restore(possession: &Possession, pending: &PendingRollback) -> Result<usize, RollbackError> {
    let request = restore_of(possession, pending);
    let restore = possession.with_checkpoints(move |store| store.restore(&request));
    let restore = telling(&possession.manager, &possession.checkpoints, RESTORE, restore);
    match (restore.await, &pending.safety) {
        (Ok(report), _) => Ok(report.done.write.len() + report.done.delete.len()),
        (Err(source), Some(safety)) if !changes_nothing(&source) => Err(RollbackError::Interrupted {
            safety: safety.clone(),
            source,
        }),
        (Err(error), _) => Err(RollbackError::Restore(error)),
    }
}

fn restore_of(possession: &Possession, pending: &PendingRollback) -> RestoreRequest {
    RestoreRequest {
        safety: pending.safety.clone(),
        ..request(possession, &pending.source.checkpoint_sha, pending.left.clone())
    }
}

/// Moves the files of undone codons back out of the archive, and publishes that for each codon (RUN-21).
async fn unarchive(possession: &Possession, pending: &PendingRollback) -> Result<(), RollbackError> {
    let entries = archived(possession, &pending.source, pending.left.clone()).await?;
    if entries.is_empty() {
        return Ok(());
    }
    let (disk, archive) = (possession.world.disk.clone(), archive(&possession.dir));
    let work = move || archive.take_back(&*disk, &entries);
    let taken = possession.world.blocking.run(work).await;
    let taken = taken.map_err(RollbackError::Archive)?;
    for taken in taken.chunk_by(|(left, _), (right, _)| left.codon_id == right.codon_id) {
        if let Some(event) = archive_restore(taken) {
            possession.publish(event).await;
        }
    }
    Ok(())
}

fn archive_restore(taken: &[Taken]) -> Option<Event> {
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

/// What was archived after the target, on the line of the current checkpoint.
async fn archived(
    possession: &Possession,
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
    let known = store.known().map_err(RollbackError::History)?;
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

fn request(possession: &Possession, target: &CheckpointSha, left: Option<CheckpointSha>) -> RestoreRequest {
    RestoreRequest {
        target: target.clone(),
        left,
        safety: None,
        at: possession.world.clock.now(),
    }
}

/// Whether every file is as it was.
fn changed_nothing(error: &RollbackError) -> bool {
    matches!(error, RollbackError::Restore(error) if changes_nothing(error))
}

/// Whether a restore that failed like this has changed no file.
fn changes_nothing(error: &RestoreError) -> bool {
    matches!(
        error,
        RestoreError::History(_) | RestoreError::Safety(_) | RestoreError::InTheWay { .. }
    )
}

async fn record(possession: &Possession, rollback: Option<PendingRollback>) -> Result<(), RollbackError> {
    let event = StateEvent::RollbackPending { rollback };
    possession.manager.transition(event).await.await?;
    Ok(())
}

fn started(route: &Route, rollback: &Rollback) -> Event {
    let (source, left) = (&route.source, route.codons());
    Event::RollbackStarted {
        from_run: route
            .state
            .runs
            .front()
            .map_or_else(|| source.run_id.clone(), |run| run.run_id.clone()),
        from_codon: route
            .thread
            .codons
            .first()
            .map(|entry| entry.codon.codon_id().clone()),
        to_codon: source.after_codon.clone(),
        to_checkpoint: source.checkpoint_sha.clone(),
        checkpoint_type: rollback.checkpoint_type,
        codons_to_process: left.iter().map(|entry| entry.codon.codon_id().clone()).collect(),
    }
}

fn changed_files(number: usize) -> String {
    match number {
        1 => "1 file changed".to_owned(),
        _ => format!("{number} files changed"),
    }
}
