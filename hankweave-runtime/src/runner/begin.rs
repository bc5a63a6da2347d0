//! How a run begins: fresh, after the newest codon, or at an earlier point (RUN-2 to RUN-4).

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

/// A run after its first records.
pub(super) struct BegunRun {
    pub(super) run: Run<Running>,
    /// The checkpoint that the run builds on.
    pub(super) base: Option<CheckpointSha>,
    /// The checkpoint of a rig that is in the files already, for the codon that is run again.
    pub(super) rig: Option<CheckpointSha>,
}

/// From where a run continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StartPoint {
    /// From the options, which count for the first run, or else as recorded.
    Start,
    /// As recorded.
    Recorded,
    /// Before the newest codon, which runs again with the files as they are.
    Again,
    /// At the beginning of the newest run with the files as they are: a codon that was chosen runs again.
    Anew,
}

/// Opens the next run, or returns `None` when the plan is finished and nothing is left to do.
///
/// `goes_on` is published after a rollback: whether the next codon starts by itself.
pub(super) async fn start(
    opened: &OpenedExecution,
    how: StartPoint,
    goes_on: bool,
) -> Result<Option<BegunRun>, RunError> {
    let anew = opened.options.fresh && how == StartPoint::Start;
    match rollback::finish(&opened.possession).await {
        Err(RollbackError::CutOff { target, safety, .. }) if anew => {
            rollback::leave_cut_off(&opened.possession, &target, safety.as_ref()).await;
        }
        finished => finished?,
    }
    if anew {
        approval::withdraw(&opened.possession.manager).await?;
    }
    let state = opened.possession.manager.snapshot();
    let (source, reason) = match where_to(opened, &state, how).await? {
        Resume::Fresh => return fresh(opened, &state).await.map(Some),
        // Without autostart the user may want to go back from the end.
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
            let source = match pending.is_some_and(|pending| pending.source == source) {
                true => source,
                false => {
                    can_be_paid(opened, &state)?;
                    go_back(opened, &state, source).await?
                }
            };
            (source, ContinuationReason::Rollback)
        }
    };
    let base = match source.checkpoint_sha.is_blank() {
        false => Some(source.checkpoint_sha.clone()),
        true => thread::position(&state, &thread::build(&state, None, None)),
    };
    let rig = rig_target(&state, &source);
    let conditions = StartingConditions::continuation(source.clone(), Some(reason));
    let run = start_run(opened, &state, conditions).await?;
    if reason == ContinuationReason::Rollback {
        let completed = completed(opened, &state, source, &run, goes_on);
        opened.possession.publish(completed).await;
    }
    Ok(Some(BegunRun { run, base, rig }))
}

/// Refuses to take files back for a codon before which the run would pause at once.
fn can_be_paid(opened: &OpenedExecution, state: &HankweaveState) -> Result<(), RunError> {
    let ceiling = opened.options.ceiling.or_from_hank(&opened.hank);
    let newest = state.runs.iter().find_map(|run| run.codons.last());
    let planned = newest.and_then(|codon| state.planned(codon.codon_id()));
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

/// Takes the files back to `source`, with what the user has changed between it and the work that is undone; returns where they are then.
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

/// Begins in the codon that was interrupted, with the files as they are: its agent continues in its session.
async fn in_session(
    opened: &OpenedExecution,
    state: &HankweaveState,
    source: ContinuationSource,
    session: SessionId,
) -> Result<BegunRun, RunError> {
    let thread = thread::build(state, None, None);
    let interrupted = thread.codons.first().map(|entry| entry.codon.as_ref());
    let rig = interrupted
        .and_then(CodonExecution::rig_setup_checkpoint)
        .cloned();
    let base = thread::position(state, &thread);
    let conditions = StartingConditions::in_session(source, session);
    let run = start_run(opened, state, conditions).await?;
    Ok(BegunRun { run, base, rig })
}

/// Why a run cannot simply continue: the user has to choose a [`Recovery`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnfinishedCodon {
    /// Codon that failed or crashed.
    pub codon: CodonId,
    /// Why it failed.
    pub reason: Option<String>,
    /// Whether it crashed with its run.
    pub crashed: bool,
    /// Whether it was stopped with its run: nothing is wrong with it.
    pub stopped: bool,
    /// Whether its agent has a session in which it can continue.
    pub session: bool,
    /// Rollback to the last success.
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

/// The trouble that the next run begins with, if there is any.
pub(crate) async fn trouble(opened: &OpenedExecution) -> Result<Option<UnfinishedCodon>, RunError> {
    let state = opened.possession.manager.snapshot();
    if opened.options.fresh || state.runs.is_empty() {
        return Ok(None);
    }
    let known = rollback::known_checkpoints(&opened.possession).await?;
    let thread = thread::build(&state, None, Some(&known));
    // After a rollback that the user asked for, an interrupted codon is no obstacle: the files stay as they are. A codon
    // that failed there is one, because a run would roll back its files.
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
            let looked = move || !arrival::is_elsewhere(&*disk, &dir, &session);
            opened.possession.world.blocking.run(looked).await
        }
        None => false,
    };
    Ok(Some(UnfinishedCodon {
        codon,
        reason,
        crashed: newest.is_some_and(|entry| entry.run_status == RunStatus::Crashed),
        stopped: thread.interruption().is_some(),
        session,
        last_success: way_back(&state, &thread),
        default: thread.default_recovery(),
    }))
}

/// Finds out which files the next run would change if it continued at the last success; `None` where it would take none back. Changes no file. Fails as the run
/// would where the budget leaves nothing for it.
pub(crate) async fn taken_back(opened: &OpenedExecution) -> Result<Option<RestorePlan>, RunError> {
    let state = opened.possession.manager.snapshot();
    can_be_paid(opened, &state)?;
    let known = rollback::known_checkpoints(&opened.possession).await?;
    let thread = thread::build(&state, None, Some(&known));
    let wish = RunIntent {
        recovery: Some(Recovery::LastSuccess),
        again: false,
    };
    let Resume::RollBack(source) = resume(&state, &thread, &opened.hank, wish, &known) else {
        return Ok(None);
    };
    let work = UndoneWork::find(opened, &state, &thread, &source).await?;
    let plan = rollback::preview_of_run(&opened.possession, source, work).await?;
    Ok(Some(plan))
}

fn way_back(state: &HankweaveState, thread: &ExecutionThread) -> SuccessTarget {
    let Resume::RollBack(source) = thread.resume(true) else {
        return SuccessTarget::Beginning;
    };
    match (source.checkpoint_type(state), source.after_codon) {
        (Some(CheckpointType::Completed), Some(codon)) => SuccessTarget::Behind(codon),
        (Some(kind), Some(codon)) => SuccessTarget::Into(codon, kind),
        (None, _) | (_, None) => SuccessTarget::Beginning,
    }
}

/// Effect of a fresh run on what earlier ones left.
const STARTS_OVER: &str = "the hank starts over at its first codon; files and history stay as they are";

/// Begins at the first codon, with the files as they are.
async fn fresh(opened: &OpenedExecution, state: &HankweaveState) -> Result<BegunRun, RunError> {
    let sha = initial_checkpoint(opened, state).await?;
    let conditions = StartingConditions::fresh(Some(sha.clone())).of_rehearsal(opened.options.rehearsal);
    let run = start_run(opened, state, conditions).await?;
    if opened.options.fresh && !state.runs.is_empty() {
        let message = STARTS_OVER.to_owned();
        opened.possession.publish(Event::Info { message }).await;
    }
    Ok(BegunRun {
        run,
        base: Some(sha),
        rig: None,
    })
}

/// Returns the position from which the run continues (RUN-2).
async fn where_to(
    opened: &OpenedExecution,
    state: &HankweaveState,
    how: StartPoint,
) -> Result<Resume, RunError> {
    if (opened.options.fresh && how == StartPoint::Start) || state.runs.is_empty() {
        return Ok(Resume::Fresh);
    }
    if let (StartPoint::Anew, None, Some(run)) = (how, &state.pending_rollback, state.runs.front()) {
        return Ok(Resume::Again(ContinuationSource::beginning_of(&run.run_id)));
    }
    let known = rollback::known_checkpoints(&opened.possession).await?;
    let thread = thread::build(state, None, Some(&known));
    let wish = RunIntent {
        recovery: opened.options.recovery.filter(|_| how == StartPoint::Start),
        again: how == StartPoint::Again,
    };
    let resume = resume(state, &thread, &opened.hank, wish, &known);
    if wish.recovery == Some(Recovery::Session) && matches!(resume, Resume::Again(_)) {
        no_session(opened, &thread).await;
    }
    Ok(resume)
}

/// Publishes that there is no session to continue with.
async fn no_session(opened: &OpenedExecution, thread: &ExecutionThread) {
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
    let goes_on = opened.options.autostart && !opened.options.fresh && !state.runs.is_empty();
    goes_on && is_finished(&state, &opened.hank)
}

fn is_finished(state: &HankweaveState, hank: &Hank) -> bool {
    decide(state, hank) == Decision::Done
}

/// The files before the first codon. With history they are saved again: what an earlier run left must not be
/// lost (RUN-2).
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
fn completed(
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

/// The rig-setup checkpoint that `source` names, if it names one.
fn rig_target(state: &HankweaveState, source: &ContinuationSource) -> Option<CheckpointSha> {
    let run = state.run(&source.run_id)?;
    let codon = run.codons.iter().find(|codon| {
        Some(codon.codon_id()) == source.after_codon.as_ref()
            && codon.rig_setup_checkpoint() == Some(&source.checkpoint_sha)
    })?;
    codon.rig_setup_checkpoint().cloned()
}

/// Without the note a replay computes costs with the prices of its own list.
async fn note_counting(opened: &OpenedExecution, run: &RunId) {
    let possession = &opened.possession;
    let counting = Counting::of(&opened.hank, &opened.options.prices);
    let (disk, dir, id) = (possession.world.disk.clone(), possession.dir.clone(), run.clone());
    let noted = (possession.world.blocking).run(move || counting.note(&*disk, &dir, &id));
    if let Err(error) = noted.await {
        tracing::warn!(%error, "what the run counts with could not be noted");
    }
}

async fn start_run(
    opened: &OpenedExecution,
    state: &HankweaveState,
    starting_conditions: StartingConditions,
) -> Result<Run<Running>, RunError> {
    let fresh = matches!(starting_conditions, StartingConditions::Fresh { .. });
    // A run that finds nothing left to do is not the one whose limits the next one continues with.
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
