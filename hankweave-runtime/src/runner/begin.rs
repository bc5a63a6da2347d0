//! Starts a run: at the first codon, after the newest codon, in its session, or at an earlier point to which files are rolled back (RUN-2 to
//! RUN-4). Also answers what the next run would do, before it starts.

use hankweave_core::budget::{self, CeilingUse};
use hankweave_core::codon::{CheckpointType, CodonExecution};
use hankweave_core::document::{
    ContinuationReason, ContinuationSource, HankweaveState, RunStatus, StartingConditions,
};
use hankweave_core::event::StateEvent;
use hankweave_core::hank::Hank;
use hankweave_core::id::{CheckpointSha, CodonId, Pid, RunId, SessionId};
use hankweave_core::plan::{Decision, DeclaredPatterns, RunIntent, decide, initial_plan, obstacle, resume};
use hankweave_core::run::{Run, Running};
use hankweave_core::thread::{self, ExecutionThread, Resume};
use hankweave_core::wire::{Event, ProgressKind};

use super::RunError;
use super::approval;
use super::rollback::{self, RollbackError, UndoneWork};
use crate::arrival;
use crate::checkpoint::{InitialRequest, RestorePlan, incomplete};
use crate::codon::{NoBudget, await_with_progress, no_budget_left};
use crate::counting::Counting;
use crate::options::Recovery;
use crate::recovery::{self, OpenedExecution};

/// A run whose start is recorded.
pub(super) struct StartedRun {
    pub(super) run: Run<Running>,
    /// The checkpoint of the files with which the run starts; `None` if no checkpoint is known.
    pub(super) base: Option<CheckpointSha>,
    /// Checkpoint of the rig (set-up of the workspace) of the first codon, if that rig is in the files already.
    pub(super) rig: Option<CheckpointSha>,
}

/// From where a run continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StartPoint {
    /// As the user's options say, or else as recorded. For the first run of a process.
    ByOptions,
    /// As recorded.
    ByRecord,
    /// Before the newest codon, which runs again with the files as they are.
    NewestCodonAgain,
    /// At the beginning of the newest run with the files as they are, for a chosen codon that has ended in that run.
    ChosenCodonAgain,
}

/// Starts the next run, or returns `None` when the plan is finished and nothing is left to do. First finishes a restore that
/// was interrupted.
///
/// `auto_restart` is published after a rollback: whether the next codon starts by itself.
pub(super) async fn start(
    opened: &OpenedExecution,
    start_point: StartPoint,
    auto_restart: bool,
) -> Result<Option<StartedRun>, RunError> {
    let starts_over = opened.options.fresh && start_point == StartPoint::ByOptions;
    match rollback::finish(&opened.possession).await {
        Err(RollbackError::CutOff { target, safety, .. }) if starts_over => {
            rollback::leave_cut_off(&opened.possession, &target, safety.as_ref()).await;
        }
        finished => finished?,
    }
    if starts_over {
        approval::withdraw(&opened.possession.manager).await?;
    }
    let state = opened.possession.manager.snapshot();
    let (source, reason) = match resume_point(opened, &state, start_point).await? {
        Resume::Fresh => return fresh(opened, &state).await.map(Some),
        // Without autostart a run of a finished plan opens as well: the user may want to roll back.
        Resume::Continue(_) if opened.options.autostart && is_finished(&state, &opened.hank) => {
            return Ok(None);
        }
        Resume::Continue(source) => (source, ContinuationReason::Continue),
        Resume::Again(source) => (source, ContinuationReason::Retry),
        Resume::Session(source, session) => {
            return in_session(opened, &state, source, session).await.map(Some);
        }
        Resume::RollBack(source) => {
            let pending = state.pending_rollback.as_ref();
            // A recorded rollback to this position has restored its files already.
            let is_rolled_back = pending.is_some_and(|pending| pending.source == source);
            let source = match is_rolled_back {
                true => source,
                false => {
                    check_budget(opened, &state)?;
                    go_back(opened, &state, source).await?
                }
            };
            (source, ContinuationReason::Rollback)
        }
    };
    // A position without a checkpoint keeps the files as they are.
    let base = match source.checkpoint_sha.is_blank() {
        false => Some(source.checkpoint_sha.clone()),
        true => thread::position(&state, &thread::build(&state, None, None)),
    };
    let rig = rig_target(&state, &source);
    let conditions = StartingConditions::continuation(source.clone(), Some(reason));
    let run = start_run(opened, &state, conditions).await?;
    if reason == ContinuationReason::Rollback {
        let completed = rollback_completed(opened, &state, source, &run, auto_restart);
        opened.possession.publish(completed).await;
    }
    Ok(Some(StartedRun { run, base, rig }))
}

/// Refuses a rollback for a codon before which the run would pause at once, because no budget is left.
fn check_budget(opened: &OpenedExecution, state: &HankweaveState) -> Result<(), RunError> {
    let ceiling = opened.options.ceiling.or_from_hank(&opened.hank);
    let newest = state.runs.iter().find_map(|run| run.codons.last());
    let planned = newest.and_then(|codon| state.planned(codon.codon_id()));
    // Without autostart no codon starts by itself, so the run does not pause at once.
    let Some(entry) = planned.filter(|_| opened.options.autostart) else {
        return Ok(());
    };
    match no_budget_left(&budget::limits(&opened.hank, ceiling, state, entry)) {
        Some(NoBudget::Pauses(_)) => Err(RunError::NothingLeft {
            codon: entry.codon_id.clone(),
            budget: CeilingUse::of(ceiling, state),
        }),
        Some(NoBudget::Ends) | None => Ok(()),
    }
}

/// Rolls the files back for a run that continues at `source`. Changes that the user made between `source` and the undone work stay. Returns the position
/// with the checkpoint that the files then match.
async fn go_back(
    opened: &OpenedExecution,
    state: &HankweaveState,
    source: ContinuationSource,
) -> Result<ContinuationSource, RunError> {
    let thread = thread::build(state, None, None);
    let work = UndoneWork::find(opened, state, &thread, &source).await?;
    let newest = thread.codons.first().map(|entry| entry.codon.codon_id());
    let declared = newest.map(|id| DeclaredPatterns::default().until(state, id).to_vec());
    let patterns = opened.patterns(declared.unwrap_or_default());
    let rollback = rollback::go_back_to(&opened.possession, source, work, patterns).await?;
    Ok(rollback.source)
}

/// Starts in the codon that was interrupted, with the files as they are: its agent continues in its session.
async fn in_session(
    opened: &OpenedExecution,
    state: &HankweaveState,
    source: ContinuationSource,
    session: SessionId,
) -> Result<StartedRun, RunError> {
    let thread = thread::build(state, None, None);
    let interrupted = thread.codons.first().map(|entry| entry.codon.as_ref());
    let rig = interrupted
        .and_then(CodonExecution::rig_setup_checkpoint)
        .cloned();
    let base = thread::position(state, &thread);
    let conditions = StartingConditions::in_session(source, session);
    let run = start_run(opened, state, conditions).await?;
    Ok(StartedRun { run, base, rig })
}

/// The codon because of which a run cannot simply continue: the user may choose a [`Recovery`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnfinishedCodon {
    /// Codon that failed, crashed or was interrupted.
    pub codon: CodonId,
    /// Why it failed.
    pub reason: Option<String>,
    /// Whether it crashed with its run.
    pub crashed: bool,
    /// Whether it was stopped with its run: nothing is wrong with it.
    pub stopped: bool,
    /// Whether its agent has a session in which it can continue.
    pub session: bool,
    /// Position at which [`Recovery::LastSuccess`] would continue.
    pub last_success: SuccessTarget,
    /// Position from which the run continues if the user does not choose.
    pub default: Recovery,
}

/// Target of [`Recovery::LastSuccess`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SuccessTarget {
    /// After this codon, which completed.
    Behind(CodonId),
    /// Into this codon, to its checkpoint of this type.
    Into(CodonId, CheckpointType),
    /// To the first codon, because nothing has completed.
    Beginning,
}

/// Returns the failed, crashed or interrupted codon with which the next run has to deal first, if there is one.
pub(crate) async fn trouble(opened: &OpenedExecution) -> Result<Option<UnfinishedCodon>, RunError> {
    let state = opened.possession.manager.snapshot();
    if opened.options.fresh || state.runs.is_empty() {
        return Ok(None);
    }
    let known = rollback::known_checkpoints(&opened.possession).await?;
    let thread = thread::build(&state, None, Some(&known));
    // An interrupted codon to which the user has rolled back is no obstacle: the files stay as they are. A failed one is,
    // because a run would roll back its files.
    if state.pending_rollback.is_some() && thread.is_unfinished() {
        return Ok(None);
    }
    let Some(codon) = obstacle(&state, &thread, &opened.hank) else {
        return Ok(None);
    };
    let newest = thread.codons.first();
    let reason = newest.and_then(|entry| entry.codon.failure_reason()?.message.clone());
    let session = match thread.own_session().cloned() {
        Some(session) => {
            let (disk, dir) = (
                opened.possession.world.disk.clone(),
                opened.possession.dir.clone(),
            );
            let is_here = move || !arrival::is_elsewhere(&*disk, &dir, &session);
            opened.possession.world.blocking.run(is_here).await
        }
        None => false,
    };
    Ok(Some(UnfinishedCodon {
        codon,
        reason,
        crashed: newest.is_some_and(|entry| entry.run_status == RunStatus::Crashed),
        stopped: thread.interruption().is_some(),
        session,
        last_success: success_target(&state, &thread),
        default: thread.default_recovery(),
    }))
}

/// Finds out which files the next run would change if it continued at the last success; `None` if it would roll back no files. Changes no file. Fails as
/// the run would if no budget is left.
pub(crate) async fn taken_back(opened: &OpenedExecution) -> Result<Option<RestorePlan>, RunError> {
    let state = opened.possession.manager.snapshot();
    check_budget(opened, &state)?;
    let known = rollback::known_checkpoints(&opened.possession).await?;
    let thread = thread::build(&state, None, Some(&known));
    let intent = RunIntent {
        recovery: Some(Recovery::LastSuccess),
        again: false,
    };
    let Resume::RollBack(source) = resume(&state, &thread, &opened.hank, intent, &known) else {
        return Ok(None);
    };
    let work = UndoneWork::find(opened, &state, &thread, &source).await?;
    let plan = rollback::preview_of_run(&opened.possession, source, work).await?;
    Ok(Some(plan))
}

/// Returns where the run continues at the last success.
fn success_target(state: &HankweaveState, thread: &ExecutionThread) -> SuccessTarget {
    let Resume::RollBack(source) = thread.resume(true) else {
        return SuccessTarget::Beginning;
    };
    match (source.checkpoint_type(state), source.after_codon) {
        (Some(CheckpointType::Completed), Some(codon)) => SuccessTarget::Behind(codon),
        (Some(kind), Some(codon)) => SuccessTarget::Into(codon, kind),
        (None, _) | (_, None) => SuccessTarget::Beginning,
    }
}

/// Message for the user about a fresh run in a directory with earlier runs.
const STARTS_OVER: &str = "the hank starts over at its first codon; files and history stay as they are";

/// Starts at the first codon, with the files as they are.
async fn fresh(opened: &OpenedExecution, state: &HankweaveState) -> Result<StartedRun, RunError> {
    let sha = initial_checkpoint(opened, state).await?;
    let conditions = StartingConditions::fresh(Some(sha.clone())).of_rehearsal(opened.options.rehearsal);
    let run = start_run(opened, state, conditions).await?;
    if opened.options.fresh && !state.runs.is_empty() {
        let message = STARTS_OVER.to_owned();
        opened.possession.publish(Event::Info { message }).await;
    }
    Ok(StartedRun {
        run,
        base: Some(sha),
        rig: None,
    })
}

/// Returns the position from which the run continues (RUN-2).
async fn resume_point(
    opened: &OpenedExecution,
    state: &HankweaveState,
    start_point: StartPoint,
) -> Result<Resume, RunError> {
    let is_by_options = start_point == StartPoint::ByOptions;
    if (opened.options.fresh && is_by_options) || state.runs.is_empty() {
        return Ok(Resume::Fresh);
    }
    if start_point == StartPoint::ChosenCodonAgain
        && state.pending_rollback.is_none()
        && let Some(run) = state.runs.front()
    {
        return Ok(Resume::Again(ContinuationSource::beginning_of(&run.run_id)));
    }
    let known = rollback::known_checkpoints(&opened.possession).await?;
    let thread = thread::build(state, None, Some(&known));
    let intent = RunIntent {
        recovery: opened.options.recovery.filter(|_| is_by_options),
        again: start_point == StartPoint::NewestCodonAgain,
    };
    let resume = resume(state, &thread, &opened.hank, intent, &known);
    if intent.recovery == Some(Recovery::Session) && matches!(resume, Resume::Again(_)) {
        publish_no_session(opened, &thread).await;
    }
    Ok(resume)
}

/// Publishes that the newest codon has no session to continue with.
async fn publish_no_session(opened: &OpenedExecution, thread: &ExecutionThread) {
    let id = thread
        .codons
        .first()
        .map_or("", |entry| entry.codon.codon_id().as_str());
    let message = format!(
        "{id} has no session in which it could continue; it runs again from its beginning, with the files as they are"
    );
    opened.possession.publish(Event::Info { message }).await;
}

/// Whether the next run would end at once, because nothing is left to do.
pub(crate) fn has_nothing_to_do(opened: &OpenedExecution) -> bool {
    let state = opened.possession.manager.snapshot();
    let continues = opened.options.autostart && !opened.options.fresh && !state.runs.is_empty();
    continues && is_finished(&state, &opened.hank)
}

fn is_finished(state: &HankweaveState, hank: &Hank) -> bool {
    decide(state, hank) == Decision::Done
}

/// Returns the checkpoint of the files before the first codon. After earlier runs a new one is made: the files that they left must
/// not be lost (RUN-2).
async fn initial_checkpoint(
    opened: &OpenedExecution,
    state: &HankweaveState,
) -> Result<CheckpointSha, RunError> {
    if let Some(sha) = state
        .initial_checkpoint
        .as_ref()
        .filter(|_| state.runs.is_empty())
    {
        return Ok(sha.clone());
    }
    let possession = &opened.possession;
    let request = InitialRequest {
        patterns: opened.patterns(DeclaredPatterns::of(&initial_plan(&opened.hank))),
        at: possession.world.clock.now(),
    };
    let initial = possession.with_checkpoints(move |store| store.initial(&request));
    let about = (ProgressKind::Checkpoint, None);
    let initial = await_with_progress(&possession.manager, &possession.checkpoints, about, initial).await;
    let checkpoint = initial.map_err(RunError::Checkpoint)?;
    if let Some(event) = incomplete(None, &checkpoint.sha, checkpoint.left_out()) {
        possession.publish(event).await;
    }
    let sha = checkpoint.sha;
    if state.initial_checkpoint.is_none() {
        let event = StateEvent::InitialCheckpointSet { sha: sha.clone() };
        possession.manager.transition(event).await.await?;
    }
    Ok(sha)
}

/// The event about the run that continues after a rollback.
fn rollback_completed(
    opened: &OpenedExecution,
    state: &HankweaveState,
    source: ContinuationSource,
    run: &Run<Running>,
    auto_restart: bool,
) -> Event {
    let codon = source.after_codon.as_ref();
    let config = codon.and_then(|id| opened.hank.codon(id.configured()));
    Event::RollbackCompleted {
        to_run: run.run_id.clone(),
        codon_name: config.map(|config| config.name.clone()),
        checkpoint_type: source.checkpoint_type(state),
        auto_restart,
        from_run: state
            .runs
            .front()
            .map_or(source.run_id, |left| left.run_id.clone()),
        checkpoint: source.checkpoint_sha,
        codon_id: source.after_codon,
    }
}

/// The checkpoint of `source`, if it is that of a rig.
fn rig_target(state: &HankweaveState, source: &ContinuationSource) -> Option<CheckpointSha> {
    let run = state.run(&source.run_id)?;
    let codon = run.codons.iter().find(|codon| {
        Some(codon.codon_id()) == source.after_codon.as_ref()
            && codon.rig_setup_checkpoint() == Some(&source.checkpoint_sha)
    })?;
    codon.rig_setup_checkpoint().cloned()
}

/// Notes the prices and settings from which the run's costs are computed. Without the note a replay of the run uses the prices of its own list.
async fn note_counting(opened: &OpenedExecution, run: &RunId) {
    let possession = &opened.possession;
    let counting = Counting::of(&opened.hank, &opened.options.prices);
    let (disk, dir, id) = (possession.world.disk.clone(), possession.dir.clone(), run.clone());
    let note = move || counting.note(&*disk, &dir, &id);
    if let Err(error) = possession.world.blocking.run(note).await {
        tracing::warn!(%error, "what the run counts with could not be noted");
    }
}

/// Records the run and, for a fresh one, its plan.
async fn start_run(
    opened: &OpenedExecution,
    state: &HankweaveState,
    starting_conditions: StartingConditions,
) -> Result<Run<Running>, RunError> {
    let fresh = matches!(starting_conditions, StartingConditions::Fresh { .. });
    // A run that finds nothing left to do must not replace the options with which the next run continues.
    recovery::remember_hank(opened, fresh || !is_finished(state, &opened.hank)).await;
    let now = opened.possession.world.clock.now();
    let run_id = opened.possession.world.ids.run_id(now);
    let started = StateEvent::RunStarted {
        run_id: run_id.clone(),
        run_folder: opened.possession.dir.run_folder(&run_id),
        git_branch: format!("run-{run_id}"),
        starting_conditions,
        server_pid: Pid(opened.possession.world.identity.pid()),
    };
    let manager = &opened.possession.manager;
    manager.transition(started).await.await?;
    note_counting(opened, &run_id).await;
    if fresh || state.execution_plan.is_empty() {
        let plan = initial_plan(&opened.hank);
        manager.replace_plan(plan).await.await?;
    }
    Ok(Run::new(run_id, now))
}
