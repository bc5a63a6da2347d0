//! The reducer: state and event in, changed state or a reason out ("state model", sections 4 to 6).

use std::sync::Arc;

use serde_json::Value;

use super::{HankweaveState, Run, RunStatus};
use crate::agent::FailureReason;
use crate::codon::{Codon, CodonExecution, CodonPhase, CodonStatus, CodonTransition, Fail, Sentinels};
use crate::cost::{TokenUsage, Usd};
use crate::event::{CheckpointType, MetadataError, Recorded, StateEvent, decode_metadata};
use crate::id::{CheckpointSha, CodonId, RunId};
use crate::plan::PlanEntry;
use crate::time::Timestamp;

/// Why an event was refused; the document is as it was.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Rejected {
    /// The table has no such edge, or the codon is in another state than the event says.
    #[error("Invalid transition from {from} to {to}")]
    InvalidTransition {
        /// The state that the codon is in.
        from: CodonStatus,
        /// The state that was to be entered.
        to: CodonStatus,
    },
    /// The edge exists and the metadata do not satisfy it.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// The event is about a run or a codon that does not exist.
    #[error("{what} `{id}` does not exist")]
    NotFound {
        /// "run" or "codon".
        what: &'static str,
        /// The id that names nothing.
        id: String,
    },
    /// The event contradicts what is recorded.
    #[error("{0}")]
    Conflict(String),
}

impl Rejected {
    /// The kind as `state apply` prints it.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::InvalidTransition { .. } => "invalid_transition",
            Self::Metadata(_) => "metadata",
            Self::NotFound { .. } => "not_found",
            Self::Conflict(_) => "conflict",
        }
    }

    /// The metadata names that are missing or invalid.
    #[must_use]
    pub fn fields(&self) -> Vec<&'static str> {
        match self {
            Self::Metadata(error) => error.missing.iter().chain(&error.invalid).copied().collect(),
            Self::InvalidTransition { .. } | Self::NotFound { .. } | Self::Conflict(_) => Vec::new(),
        }
    }
}

/// What an accepted event changed, for those who keep figures of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Applied {
    /// The cost of the touched codons before the event.
    pub cost_before: Usd,
    /// Their cost after it.
    pub cost_after: Usd,
    /// Whether those codons belong to the run that was current before the event.
    pub in_current_run: bool,
    /// Whether a run or a codon changed its state, so that the snapshot on disk is due.
    pub transition: bool,
}

impl Applied {
    const NOTHING: Self = Self {
        cost_before: Usd::ZERO,
        cost_after: Usd::ZERO,
        in_current_run: false,
        transition: false,
    };
    const TRANSITION: Self = Self {
        transition: true,
        ..Self::NOTHING
    };
}

/// Applies one event: everything of it, or nothing.
///
/// The cost does not depend on the length of history: only the run and the codon that the event is about are touched, and both are looked for from their newest end.
///
/// # Errors
///
/// Returns [`Rejected`]; the document is then unchanged.
pub fn apply(state: &mut HankweaveState, recorded: &Recorded<StateEvent>) -> Result<Applied, Rejected> {
    apply_event(state, &recorded.event, recorded.at)
}

/// [`apply`] for an event that is recorded at `at`.
pub(super) fn apply_event(
    state: &mut HankweaveState,
    event: &StateEvent,
    at: Timestamp,
) -> Result<Applied, Rejected> {
    match event {
        StateEvent::RunStarted {
            run_id,
            run_folder,
            git_branch,
            starting_conditions,
            server_pid,
        } => start_run(
            state,
            Run {
                run_id: run_id.clone(),
                run_folder: run_folder.clone(),
                git_branch: git_branch.clone(),
                starting_conditions: starting_conditions.clone(),
                codons: Vec::new(),
                status: RunStatus::Running,
                start_time: at,
                end_time: None,
                server_pid: *server_pid,
                extra: Default::default(),
            },
        ),
        StateEvent::RunCompleted { run_id } => end_run(state, run_id, RunStatus::Completed, at),
        StateEvent::RunFailed { run_id } => end_run(state, run_id, RunStatus::Failed, at),
        StateEvent::RunCrashed {
            run_id,
            detected_at,
            last_codon_status: _,
        } => crash_run(state, run_id, *detected_at),
        StateEvent::CodonStarted {
            run_id,
            codon_id,
            loop_context,
        } => {
            let opened = Codon::new(codon_id.clone(), at, loop_context.clone()).into_execution();
            start_codon(state, run_id, opened)
        }
        StateEvent::CodonTransitioned {
            run_id,
            codon_id,
            from,
            to,
            metadata,
        } => {
            let current = state.current_run_id.as_ref() == Some(run_id);
            let codon = find_codon(state, run_id, codon_id)?;
            let before = codon.codon_cost();
            let (transition, phase) = check_transition(codon, *from, *to, metadata.as_ref(), at)?;
            let mut changed = advance(Arc::clone(codon), transition, phase)?;
            if metadata
                .as_ref()
                .is_some_and(|metadata| metadata.get("contextExceeded") == Some(&Value::Bool(true)))
            {
                changed.set_context_exceeded();
            }
            let after = changed.codon_cost();
            *codon = Arc::new(changed);
            Ok(Applied {
                cost_before: before,
                cost_after: after,
                in_current_run: current,
                transition: true,
            })
        }
        StateEvent::CostsUpdated {
            run_id,
            codon_id,
            cost,
            tokens,
        }
        | StateEvent::CodonFinalCostSet {
            run_id,
            codon_id,
            final_cost: cost,
            final_tokens: tokens,
        } => change_costs(state, run_id, codon_id, |_, _| (*cost, *tokens)),
        StateEvent::CostsIncremented {
            run_id,
            codon_id,
            cost_delta,
            tokens_delta,
        } => change_costs(state, run_id, codon_id, |cost, tokens| {
            (cost + *cost_delta, tokens + *tokens_delta)
        }),
        StateEvent::AssistantMessageCountUpdated {
            run_id,
            codon_id,
            new_count,
        } => {
            let codon = find_codon(state, run_id, codon_id)?;
            match Arc::make_mut(codon) {
                CodonExecution::Running(codon) => codon.assistant_message_count = *new_count,
                CodonExecution::CompletingSentinels(codon) => codon.assistant_message_count = *new_count,
                other => return Err(not_working(other, "a message count")),
            }
            Ok(Applied::NOTHING)
        }
        StateEvent::SentinelStatesUpdated {
            run_id,
            codon_id,
            sentinel_states,
            total_cost,
        } => {
            let codon = find_codon(state, run_id, codon_id)?;
            let sentinels = Sentinels::new(sentinel_states.clone(), *total_cost);
            match Arc::make_mut(codon) {
                CodonExecution::Starting(codon) => codon.sentinels = sentinels,
                CodonExecution::Initializing(codon) => codon.sentinels = sentinels,
                CodonExecution::Running(codon) => codon.sentinels = sentinels,
                CodonExecution::CompletingSentinels(codon) => codon.sentinels = sentinels,
                other => return Err(not_working(other, "sentinels")),
            }
            Ok(Applied::NOTHING)
        }
        StateEvent::CheckpointCreated {
            run_id,
            codon_id,
            checkpoint_type,
            sha,
            branch: _,
        } => record_checkpoint(find_codon(state, run_id, codon_id)?, *checkpoint_type, sha),
        StateEvent::InitialCheckpointSet { sha } => {
            state.initial_checkpoint = Some(sha.clone());
            Ok(Applied::NOTHING)
        }
        StateEvent::ExtensionCountUpdated {
            run_id,
            codon_id,
            extension_count,
        } => {
            let codon = find_codon(state, run_id, codon_id)?;
            if codon.is_terminal() {
                return Err(not_working(codon, "an extension count"));
            }
            Arc::make_mut(codon)
                .extra_mut()
                .insert("extensionCount", Value::from(*extension_count));
            Ok(Applied::NOTHING)
        }
        StateEvent::PlanReplaced { execution_plan } => replace_plan(state, execution_plan),
    }
}

fn start_run(state: &mut HankweaveState, run: Run) -> Result<Applied, Rejected> {
    if state.run(&run.run_id).is_some() {
        return Err(Rejected::Conflict(format!("run `{}` exists already", run.run_id)));
    }
    if let Some(running) = state.running_runs().next() {
        return Err(Rejected::Conflict(format!(
            "run `{}` is still running",
            running.run_id
        )));
    }
    state.current_run_id = Some(run.run_id.clone());
    state.runs.push_front(Arc::new(run));
    Ok(Applied::TRANSITION)
}

fn end_run(
    state: &mut HankweaveState,
    id: &RunId,
    status: RunStatus,
    at: Timestamp,
) -> Result<Applied, Rejected> {
    let run = find_run(state, id)?;
    if run.status != RunStatus::Running {
        return Err(Rejected::Conflict(format!(
            "run `{id}` has already ended: {}",
            run.status
        )));
    }
    run.status = status;
    run.end_time = Some(at);
    leave_current(state, id);
    Ok(Applied::TRANSITION)
}

/// Marks a run as crashed and closes what it left open, in one step ("reliability and security", rule L4).
fn crash_run(state: &mut HankweaveState, id: &RunId, detected_at: Timestamp) -> Result<Applied, Rejected> {
    let run = find_run(state, id)?;
    if run.status != RunStatus::Running {
        return Err(Rejected::Conflict(format!(
            "run `{id}` has already ended: {}",
            run.status
        )));
    }
    for codon in run.codons.iter_mut().rev() {
        let Ok(phase) = CodonPhase::try_from(codon.status()) else {
            continue;
        };
        let crash = CodonTransition::Fail(Fail {
            end_time: detected_at,
            exit_code: -1,
            failure_reason: FailureReason::unknown(false, "Server crashed"),
            error_checkpoint: None,
        });
        *codon = Arc::new(advance(Arc::clone(codon), crash, phase)?);
    }
    run.status = RunStatus::Crashed;
    run.end_time = Some(detected_at);
    leave_current(state, id);
    Ok(Applied::TRANSITION)
}

fn leave_current(state: &mut HankweaveState, id: &RunId) {
    if state.current_run_id.as_ref() == Some(id) {
        state.current_run_id = None;
    }
}

fn start_codon(state: &mut HankweaveState, id: &RunId, opened: CodonExecution) -> Result<Applied, Rejected> {
    let run = find_run(state, id)?;
    if run.status != RunStatus::Running {
        return Err(Rejected::Conflict(format!(
            "run `{id}` has already ended: {}",
            run.status
        )));
    }
    if let Some(open) = run.open_codon() {
        return Err(Rejected::Conflict(format!(
            "codon `{}` of run `{id}` is still {}",
            open.codon_id(),
            open.status()
        )));
    }
    run.codons.push(Arc::new(opened));
    Ok(Applied::TRANSITION)
}

/// First the edge, then the metadata ("state model", section 5).
fn check_transition(
    codon: &CodonExecution,
    from: CodonStatus,
    to: CodonStatus,
    metadata: Option<&serde_json::Map<String, Value>>,
    at: Timestamp,
) -> Result<(CodonTransition, CodonPhase), Rejected> {
    let actual = codon.status();
    let refused = Rejected::InvalidTransition { from: actual, to };
    if from != actual || !from.targets().contains(&to) {
        return Err(refused);
    }
    let phase = CodonPhase::try_from(from).map_err(|_| refused)?;
    let (mut transition, phase) = decode_metadata(phase, to, metadata, at)?;
    if let CodonTransition::Start(start) = &mut transition
        && start.rig_setup_checkpoint.is_none()
    {
        start.rig_setup_checkpoint = codon.rig_setup_checkpoint().cloned();
    }
    Ok((transition, phase))
}

/// Takes the step of the codon machine, and corrects the phase where an event names an earlier one than the codon is in.
fn advance(
    codon: Arc<CodonExecution>,
    transition: CodonTransition,
    phase: CodonPhase,
) -> Result<CodonExecution, Rejected> {
    let codon = Arc::unwrap_or_clone(codon);
    let mut changed = codon
        .apply(transition)
        .map_err(|refused| Rejected::InvalidTransition {
            from: refused.from,
            to: refused.to,
        })?;
    match &mut changed {
        CodonExecution::Failed(failed) => failed.failed_during = phase,
        CodonExecution::Skipped(skipped) => skipped.skipped_during = phase,
        CodonExecution::Preparing(_)
        | CodonExecution::Starting(_)
        | CodonExecution::Initializing(_)
        | CodonExecution::Running(_)
        | CodonExecution::CompletingSentinels(_)
        | CodonExecution::Completed(_) => {}
    }
    Ok(changed)
}

fn change_costs(
    state: &mut HankweaveState,
    run_id: &RunId,
    codon_id: &CodonId,
    change: impl FnOnce(Usd, TokenUsage) -> (Usd, TokenUsage),
) -> Result<Applied, Rejected> {
    let in_current_run = state.current_run_id.as_ref() == Some(run_id);
    let codon = find_codon(state, run_id, codon_id)?;
    if !matches!(
        codon.status(),
        CodonStatus::Running | CodonStatus::CompletingSentinels
    ) {
        return Err(not_working(codon, "costs"));
    }
    let (cost, tokens) = match Arc::make_mut(codon) {
        CodonExecution::Running(codon) => (&mut codon.current_cost, &mut codon.current_tokens.usage),
        CodonExecution::CompletingSentinels(codon) => {
            (&mut codon.current_cost, &mut codon.current_tokens.usage)
        }
        other => return Err(not_working(other, "costs")),
    };
    let cost_before = *cost;
    (*cost, *tokens) = change(*cost, *tokens);
    Ok(Applied {
        cost_before,
        cost_after: *cost,
        in_current_run,
        transition: false,
    })
}

/// A checkpoint of a codon that has ended is in its record already; the event then changes nothing ("state model", section 10, row 8).
fn record_checkpoint(
    codon: &mut Arc<CodonExecution>,
    checkpoint_type: CheckpointType,
    sha: &CheckpointSha,
) -> Result<Applied, Rejected> {
    if checkpoint_type != CheckpointType::RigSetup || codon.is_terminal() {
        return Ok(Applied::NOTHING);
    }
    let field = match Arc::make_mut(codon) {
        CodonExecution::Preparing(codon) => &mut codon.rig_setup_checkpoint,
        CodonExecution::Starting(codon) => &mut codon.rig_setup_checkpoint,
        CodonExecution::Initializing(codon) => &mut codon.rig_setup_checkpoint,
        CodonExecution::Running(codon) => &mut codon.rig_setup_checkpoint,
        CodonExecution::CompletingSentinels(codon) => &mut codon.rig_setup_checkpoint,
        CodonExecution::Completed(_) | CodonExecution::Failed(_) | CodonExecution::Skipped(_) => {
            return Ok(Applied::NOTHING);
        }
    };
    *field = Some(sha.clone());
    Ok(Applied::NOTHING)
}

fn replace_plan(state: &mut HankweaveState, plan: &[PlanEntry]) -> Result<Applied, Rejected> {
    let mut seen = std::collections::HashSet::new();
    if let Some(twice) = plan.iter().find(|entry| !seen.insert(&entry.codon_id)) {
        return Err(Rejected::Conflict(format!(
            "codon `{}` is in the plan twice",
            twice.codon_id
        )));
    }
    state.execution_plan = Arc::new(plan.to_vec());
    Ok(Applied::TRANSITION)
}

fn find_run<'a>(state: &'a mut HankweaveState, id: &RunId) -> Result<&'a mut Run, Rejected> {
    state
        .runs
        .iter_mut()
        .find(|run| run.run_id == *id)
        .map(Arc::make_mut)
        .ok_or_else(|| not_found("run", id.as_str()))
}

/// The open record with that id, otherwise the newest one ("state model", section 5).
fn find_codon<'a>(
    state: &'a mut HankweaveState,
    run_id: &RunId,
    codon_id: &CodonId,
) -> Result<&'a mut Arc<CodonExecution>, Rejected> {
    let position = {
        let run = state
            .run(run_id)
            .ok_or_else(|| not_found("run", run_id.as_str()))?;
        let newest_first = || {
            run.codons
                .iter()
                .enumerate()
                .rev()
                .filter(|(_, codon)| codon.codon_id() == codon_id)
        };
        newest_first()
            .find(|(_, codon)| !codon.is_terminal())
            .or_else(|| newest_first().next())
            .map(|(position, _)| position)
            .ok_or_else(|| not_found("codon", codon_id.as_str()))?
    };
    Ok(&mut find_run(state, run_id)?.codons[position])
}

fn not_found(what: &'static str, id: &str) -> Rejected {
    Rejected::NotFound {
        what,
        id: id.to_owned(),
    }
}

fn not_working(codon: &CodonExecution, what: &str) -> Rejected {
    Rejected::Conflict(format!(
        "codon `{}` is {} and takes no {what}",
        codon.codon_id(),
        codon.status()
    ))
}
