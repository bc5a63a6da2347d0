//! How a run begins: fresh, behind the newest codon, or back at the last success.

use hankweave_core::event::StateEvent;
use hankweave_core::hank::Hank;
use hankweave_core::id::{CheckpointSha, Pid};
use hankweave_core::plan::{BlockedBy, Decision, checkpoint_patterns, decide, initial_plan};
use hankweave_core::run::{Run, Running};
use hankweave_core::state::{HankweaveState, StartingConditions};
use hankweave_core::thread::{self, CheckpointFacts, CheckpointTable, Resume};

use super::RunError;
use crate::checkpoint::{InitialRequest, RestoreRequest};
use crate::recovery::Opened;

/// What the first records of the run say.
pub(super) struct Begun {
    pub(super) run: Run<Running>,
    /// The checkpoint that the run builds on.
    pub(super) base: Option<CheckpointSha>,
    /// The checkpoint of a rig that is in the files already, for the codon that is run again.
    pub(super) rig: Option<CheckpointSha>,
    pub(super) notices: Vec<String>,
}

/// Opens the next run, or returns `None` when the plan is finished and nothing is left to do.
pub(super) async fn begin(opened: &Opened) -> Result<Option<Begun>, RunError> {
    let state = opened.manager.snapshot();
    let resume = resume(opened, &state).await?;
    if let Some(resume) = &resume
        && !matches!(resume, Resume::Fresh)
        && is_finished(&state, &opened.hank)
    {
        return Ok(None);
    }
    let mut notices = Vec::new();
    let (conditions, base, rig) = match resume {
        None | Some(Resume::Fresh) => {
            let sha = initial_checkpoint(opened, &state).await?;
            (StartingConditions::fresh(Some(sha.clone())), Some(sha), None)
        }
        Some(resume) => {
            let reason = resume.reason();
            let (source, rig) = match resume {
                Resume::RollBack(source) => {
                    notices.push(restore(opened, &state, &source.checkpoint_sha).await?);
                    let rig = rig_target(&state, &source);
                    (source, rig)
                }
                Resume::Continue(source) => (source, None),
                Resume::Fresh => unreachable!("matched above"),
            };
            let base = Some(source.checkpoint_sha.clone()).filter(|sha| !sha.is_blank());
            (StartingConditions::continuation(source, reason), base, rig)
        }
    };
    let run = start_run(opened, &state, conditions).await?;
    Ok(Some(Begun {
        run,
        base,
        rig,
        notices,
    }))
}

/// `None` when there is no history or the user does not want it.
async fn resume(opened: &Opened, state: &HankweaveState) -> Result<Option<Resume>, RunError> {
    if opened.options.fresh || state.runs.is_empty() {
        return Ok(None);
    }
    let known = known_checkpoints(opened).await?;
    let thread = thread::build(state, None, Some(&known));
    let blocked = matches!(
        decide(state, &thread, &opened.hank),
        Decision::Blocked(BlockedBy::FailedCodon(_))
    );
    Ok(Some(thread.resume(blocked)))
}

/// "Could not read" must never look like "there are none" ("runtime behaviour", section 2).
async fn known_checkpoints(opened: &Opened) -> Result<CheckpointTable, RunError> {
    let store = opened.checkpoints.clone();
    let known = opened
        .world
        .blocking
        .run(move || store.known())
        .await
        .map_err(RunError::History)?;
    let facts = |found: crate::checkpoint::KnownCheckpoint| CheckpointFacts {
        message: found.message,
        timestamp: Some(found.timestamp),
        branch: found.branch,
    };
    Ok(known
        .into_iter()
        .map(|(sha, found)| (sha, facts(found)))
        .collect())
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
        at: opened.world.clock.now(),
    };
    let store = opened.checkpoints.clone();
    let initial = opened
        .world
        .blocking
        .run(move || store.initial(&request))
        .await
        .map_err(RunError::Checkpoint)?;
    let event = StateEvent::InitialCheckpointSet {
        sha: initial.sha.clone(),
    };
    opened.manager.transition(event).await.await?;
    Ok(initial.sha)
}

async fn restore(
    opened: &Opened,
    state: &HankweaveState,
    target: &CheckpointSha,
) -> Result<String, RunError> {
    let left = state.runs.front().and_then(|run| {
        run.codons
            .iter()
            .rev()
            .find_map(|codon| codon.checkpoints().last().map(|(_, sha)| sha.clone()))
    });
    let request = RestoreRequest {
        target: target.clone(),
        left,
        at: opened.world.clock.now(),
    };
    let store = opened.checkpoints.clone();
    let report = opened
        .world
        .blocking
        .run(move || store.restore(&request))
        .await
        .map_err(RunError::Restore)?;
    let changed = report.done.write.len() + report.done.delete.len();
    Ok(match report.safety {
        Some(safety) => format!(
            "went back to checkpoint {} ({changed} files changed; what was there is kept in checkpoint {})",
            target.short(),
            safety.sha.short()
        ),
        None => format!("the files are those of checkpoint {}", target.short()),
    })
}

/// The rig-setup checkpoint that `source` names, if it names one.
fn rig_target(
    state: &HankweaveState,
    source: &hankweave_core::state::ContinuationSource,
) -> Option<CheckpointSha> {
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
    let now = opened.world.clock.now();
    let run_id = opened.world.ids.run_id(now);
    let started = StateEvent::RunStarted {
        run_id: run_id.clone(),
        run_folder: opened.dir.run_folder(&run_id),
        git_branch: format!("run-{run_id}"),
        starting_conditions,
        server_pid: Pid(opened.world.identity.pid()),
    };
    opened.manager.transition(started).await.await?;
    if fresh || state.execution_plan.is_empty() {
        opened
            .manager
            .replace_plan(initial_plan(&opened.hank))
            .await
            .await?;
    }
    Ok(Run::new(run_id, now))
}
