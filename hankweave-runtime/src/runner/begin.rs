//! How a run begins: fresh, behind the newest codon, or back at an earlier point.

use hankweave_core::event::StateEvent;
use hankweave_core::hank::Hank;
use hankweave_core::id::{CheckpointSha, Pid};
use hankweave_core::plan::{BlockedBy, Decision, checkpoint_patterns, decide, initial_plan};
use hankweave_core::run::{Run, Running};
use hankweave_core::state::{ContinuationReason, ContinuationSource, HankweaveState, StartingConditions};
use hankweave_core::thread::{self, Resume};
use hankweave_core::wire::Event;

use super::RunError;
use super::rollback;
use crate::checkpoint::InitialRequest;
use crate::recovery::Opened;

/// What the first records of the run say.
pub(super) struct Begun {
    pub(super) run: Run<Running>,
    /// The checkpoint that the run builds on.
    pub(super) base: Option<CheckpointSha>,
    /// The checkpoint of a rig that is in the files already, for the codon that is run again.
    pub(super) rig: Option<CheckpointSha>,
}

/// Opens the next run, or returns `None` when the plan is finished and nothing is left to do.
pub(super) async fn begin(opened: &Opened) -> Result<Option<Begun>, RunError> {
    rollback::finish(&opened.possession).await?;
    let state = opened.possession.manager.snapshot();
    let (source, reason) = match resume(opened, &state).await? {
        Resume::Fresh => return fresh(opened, &state).await.map(Some),
        Resume::Continue(_) if is_finished(&state, &opened.hank) => return Ok(None),
        Resume::Continue(source) => (source, ContinuationReason::Continue),
        Resume::RollBack(source) => {
            if state.pending_rollback.is_none() {
                rollback::go_back_to(&opened.possession, source.clone()).await?;
            }
            (source, ContinuationReason::Rollback)
        }
    };
    let base = Some(source.checkpoint_sha.clone()).filter(|sha| !sha.is_blank());
    let rig = rig_target(&state, &source);
    let conditions = StartingConditions::continuation(source.clone(), Some(reason));
    let run = start_run(opened, &state, conditions).await?;
    if reason == ContinuationReason::Rollback {
        let completed = completed(opened, &state, source, &run);
        // Losing the receipt is harmless: a journal that cannot be written shows up in the next transition.
        drop(opened.possession.manager.record(completed).await);
    }
    Ok(Some(Begun { run, base, rig }))
}

/// From nothing, with the files as they are.
async fn fresh(opened: &Opened, state: &HankweaveState) -> Result<Begun, RunError> {
    let sha = initial_checkpoint(opened, state).await?;
    let conditions = StartingConditions::fresh(Some(sha.clone()));
    Ok(Begun {
        run: start_run(opened, state, conditions).await?,
        base: Some(sha),
        rig: None,
    })
}

/// Where the run goes on ("runtime behaviour", section 2, step 11).
async fn resume(opened: &Opened, state: &HankweaveState) -> Result<Resume, RunError> {
    if opened.options.fresh || state.runs.is_empty() {
        return Ok(Resume::Fresh);
    }
    if let Some(pending) = &state.pending_rollback {
        return Ok(Resume::RollBack(pending.source.clone()));
    }
    let known = rollback::known_checkpoints(&opened.possession).await?;
    let thread = thread::build(state, None, Some(&known));
    let blocked = matches!(
        decide(state, &thread, &opened.hank),
        Decision::Blocked(BlockedBy::FailedCodon(_))
    );
    let untouched = state.runs.front().filter(|run| run.codons.is_empty());
    let source = untouched.and_then(|run| run.starting_conditions.source());
    Ok(match source {
        // A run that ended before its first codon is taken up where it began, which a rig-setup continuation needs.
        Some(source) if !blocked => Resume::Continue(source.clone()),
        Some(_) | None => thread.resume(blocked),
    })
}

/// Whether the plan has ended with the newest codon, as if a new run were open already.
fn is_finished(state: &HankweaveState, hank: &Hank) -> bool {
    let thread = thread::build(state, None, None);
    decide(state, &thread, hank) == Decision::Done
}

async fn initial_checkpoint(opened: &Opened, state: &HankweaveState) -> Result<CheckpointSha, RunError> {
    if let Some(sha) = &state.initial_checkpoint {
        return Ok(sha.clone());
    }
    let plan = initial_plan(&opened.hank);
    let patterns = plan.last().map(|last| checkpoint_patterns(&plan, &last.codon_id));
    let request = InitialRequest {
        patterns: opened.patterns(patterns.unwrap_or_default()),
        at: opened.possession.world.clock.now(),
    };
    let store = opened.possession.checkpoints.clone();
    let initial = opened
        .possession
        .world
        .blocking
        .run(move || store.initial(&request))
        .await
        .map_err(RunError::Checkpoint)?;
    let event = StateEvent::InitialCheckpointSet {
        sha: initial.sha.clone(),
    };
    opened.possession.manager.transition(event).await.await?;
    Ok(initial.sha)
}

/// Tells clients which run took up the way back.
fn completed(
    opened: &Opened,
    state: &HankweaveState,
    source: ContinuationSource,
    run: &Run<Running>,
) -> Event {
    let codon = source.after_codon.as_ref();
    let config = codon.and_then(|id| opened.hank.codon(id.configured()));
    Event::RollbackCompleted {
        to_run: run.run_id.clone(),
        codon_name: config.map(|config| config.name.clone()),
        checkpoint_type: source.checkpoint_type(state),
        auto_restart: true,
        from_run: source.run_id,
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

async fn start_run(
    opened: &Opened,
    state: &HankweaveState,
    starting_conditions: StartingConditions,
) -> Result<Run<Running>, RunError> {
    let fresh = matches!(starting_conditions, StartingConditions::Fresh { .. });
    let now = opened.possession.world.clock.now();
    let run_id = opened.possession.world.ids.run_id(now);
    let started = StateEvent::RunStarted {
        run_id: run_id.clone(),
        run_folder: opened.possession.dir.run_folder(&run_id),
        git_branch: format!("run-{run_id}"),
        starting_conditions,
        server_pid: Pid(opened.possession.world.identity.pid()),
    };
    opened.possession.manager.transition(started).await.await?;
    if fresh || state.execution_plan.is_empty() {
        opened
            .possession
            .manager
            .replace_plan(initial_plan(&opened.hank))
            .await
            .await?;
    }
    Ok(Run::new(run_id, now))
}
