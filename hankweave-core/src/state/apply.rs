//! The reducer: state and event in, changed state or a reason out (STATE-14 to STATE-32).

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::index::{Index, Place};
use crate::codon::{
    CheckpointType, Codon, CodonExecution, CodonPhase, CodonStatus, CodonTransition, Fail, SentinelState,
};
use crate::cost::{TokenUsage, Usd};
use crate::document::{
    Approval, HankweaveState, Operation, PendingRollback, PlanEntry, RunRecord, RunStatus,
};
use crate::event::{MetadataError, StateEvent, decode_metadata};
use crate::id::{CheckpointSha, CodonId, RunId};
use crate::run::{self, RunTransition};
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

    pub(super) fn not_found(what: &'static str, id: &str) -> Self {
        Self::NotFound {
            what,
            id: id.to_owned(),
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

/// What an accepted event changed, for running totals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Applied {
    /// The cost of the touched codons before the event.
    pub cost_before: Usd,
    /// Their cost after it.
    pub cost_after: Usd,
    /// What was spent for them before the event.
    pub spend_before: Usd,
    /// What was spent for them after it.
    pub spend_after: Usd,
    /// Whether those codons belong to the run that was current before the event.
    pub in_current_run: bool,
    /// Whether a run or a codon changed its state, so that the snapshot on disk is due.
    pub transition: bool,
}

impl Applied {
    const NOTHING: Self = Self {
        cost_before: Usd::ZERO,
        cost_after: Usd::ZERO,
        spend_before: Usd::ZERO,
        spend_after: Usd::ZERO,
        in_current_run: false,
        transition: false,
    };
    const TRANSITION: Self = Self {
        transition: true,
        ..Self::NOTHING
    };
}

/// Applies one event that is recorded at `at`: everything of it, or nothing.
///
/// The cost does not depend on the length of history: `index` finds the run and the codon, and only those two
/// are touched.
///
/// # Errors
///
/// Returns [`Rejected`]; the document is then unchanged.
pub(super) fn apply_event(
    state: &mut HankweaveState,
    index: &mut Index,
    event: &StateEvent,
    at: Timestamp,
) -> Result<Applied, Rejected> {
    let mut reducer = Reducer { state, index };
    match event {
        StateEvent::RunStarted {
            run_id,
            run_folder,
            git_branch,
            starting_conditions,
            server_pid,
        } => reducer.start_run(RunRecord {
            run_id: run_id.clone(),
            run_folder: run_folder.clone(),
            git_branch: git_branch.clone(),
            starting_conditions: starting_conditions.clone(),
            codons: Vec::new(),
            status: RunStatus::Running,
            start_time: at,
            end_time: None,
            server_pid: *server_pid,
            interrupted_by: None,
            extra: Default::default(),
        }),
        StateEvent::RunCompleted { run_id } => reducer.end_run(run_id, run::Complete { end_time: at }.into()),
        StateEvent::RunFailed {
            run_id,
            interrupted_by,
        } => {
            let position = reducer.running(run_id)?;
            let applied = reducer.end_run(run_id, run::Fail { end_time: at }.into())?;
            reducer.run_mut(position).interrupted_by = *interrupted_by;
            Ok(applied)
        }
        StateEvent::RunCrashed {
            run_id,
            detected_at,
            last_codon_status: _,
        } => reducer.crash_run(run_id, *detected_at),
        StateEvent::CodonStarted {
            run_id,
            codon_id,
            loop_context,
        } => {
            let opened = Codon::new(codon_id.clone(), at, loop_context.clone()).into_execution();
            reducer.start_codon(run_id, opened)
        }
        StateEvent::CodonTransitioned {
            run_id,
            codon_id,
            from,
            to,
            metadata,
        } => {
            let place = reducer.place(run_id, codon_id)?;
            reducer.step(place, *from, *to, metadata.as_ref(), at)
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
        } => {
            let place = reducer.place(run_id, codon_id)?;
            reducer.change_costs(place, |_, _| (*cost, *tokens))
        }
        StateEvent::CostsIncremented {
            run_id,
            codon_id,
            cost_delta,
            tokens_delta,
        } => {
            let place = reducer.place(run_id, codon_id)?;
            reducer.change_costs(place, |cost, tokens| (cost + *cost_delta, tokens + *tokens_delta))
        }
        StateEvent::AssistantMessageCountUpdated {
            run_id,
            codon_id,
            new_count,
        } => {
            let place = reducer.place(run_id, codon_id)?;
            reducer.count_messages(place, *new_count)
        }
        StateEvent::SentinelStatesUpdated {
            run_id,
            codon_id,
            sentinel_states,
            total_cost,
        } => {
            let place = reducer.place(run_id, codon_id)?;
            reducer.replace_sentinels(place, sentinel_states, *total_cost)
        }
        StateEvent::CheckpointCreated {
            run_id,
            codon_id,
            checkpoint_type,
            sha,
            branch: _,
        } => {
            let place = reducer.place(run_id, codon_id)?;
            Ok(reducer.record_checkpoint(place, *checkpoint_type, sha))
        }
        StateEvent::InitialCheckpointSet { sha } => {
            reducer.state.initial_checkpoint = Some(sha.clone());
            Ok(Applied::NOTHING)
        }
        StateEvent::ExtensionCountUpdated {
            run_id,
            codon_id,
            extension_count,
        } => {
            let place = reducer.place(run_id, codon_id)?;
            reducer.count_extensions(place, *extension_count)
        }
        StateEvent::RollbackPending { rollback } => reducer.set_rollback(rollback.clone()),
        StateEvent::ApprovalSet { approval } => reducer.set_approval(approval.clone()),
        StateEvent::OperationRecorded { operation } => reducer.record_operation(operation),
        StateEvent::PlanReplaced { execution_plan } => reducer.replace_plan(execution_plan),
    }
}

/// A document that is being changed, with the places of its parts. Every method checks first and changes
/// then.
struct Reducer<'a> {
    state: &'a mut HankweaveState,
    index: &'a mut Index,
}

impl Reducer<'_> {
    fn place(&mut self, run_id: &RunId, codon_id: &CodonId) -> Result<Place, Rejected> {
        self.index.codon(self.state, run_id, codon_id)
    }

    fn codon(&self, place: Place) -> &CodonExecution {
        &self.state.runs[place.run].codons[place.codon]
    }

    /// The record for changing; copies only what a snapshot shares.
    fn codon_mut(&mut self, place: Place) -> &mut CodonExecution {
        Arc::make_mut(&mut self.run_mut(place.run).codons[place.codon])
    }

    fn run_mut(&mut self, position: usize) -> &mut RunRecord {
        Arc::make_mut(&mut self.state.runs[position])
    }

    fn is_current(&self, run: usize) -> bool {
        self.state.current_run_id.as_ref() == Some(&self.state.runs[run].run_id)
    }

    /// Puts the run in front, when no other is running (STATE-23).
    fn start_run(&mut self, run: RunRecord) -> Result<Applied, Rejected> {
        if self.index.run(self.state, &run.run_id).is_some() {
            return Err(Rejected::Conflict(format!("run `{}` exists already", run.run_id)));
        }
        if let Some(running) = self.index.running_run(self.state) {
            let message = format!("run `{}` is still running", running.run_id);
            return Err(Rejected::Conflict(message));
        }
        self.state.pending_rollback = None;
        self.state.current_run_id = Some(run.run_id.clone());
        self.state.runs.push_front(Arc::new(run));
        self.index.run_started(self.state);
        Ok(Applied::TRANSITION)
    }

    /// Files are never restored while a codon is open; a run whose codons have all ended may still be open
    /// (STATE-32).
    fn set_rollback(&mut self, rollback: Option<PendingRollback>) -> Result<Applied, Rejected> {
        if let Some(open) = self.index.live_codon(self.state) {
            return Err(still_open(open));
        }
        if let Some(rollback) = &rollback
            && self.index.run(self.state, &rollback.source.run_id).is_none()
        {
            return Err(Rejected::not_found("run", rollback.source.run_id.as_str()));
        }
        if let Some(PendingRollback {
            restored: true,
            operation: Some(operation),
            ..
        }) = &rollback
            && !self.knows_operation(operation)
        {
            Arc::make_mut(&mut self.state.operations).push(operation.clone());
        }
        self.state.pending_rollback = rollback;
        Ok(Applied::TRANSITION)
    }

    /// What was removed is on record once (RUN-23).
    fn record_operation(&mut self, operation: &Operation) -> Result<Applied, Rejected> {
        if let Some(open) = self.index.live_codon(self.state) {
            return Err(still_open(open));
        }
        if self.index.run(self.state, &operation.behind).is_none() {
            return Err(Rejected::not_found("run", operation.behind.as_str()));
        }
        if self.knows_operation(operation) {
            let message = format!("operation `{}` is recorded already", operation.id);
            return Err(Rejected::Conflict(message));
        }
        Arc::make_mut(&mut self.state.operations).push(operation.clone());
        Ok(Applied::TRANSITION)
    }

    fn knows_operation(&self, operation: &Operation) -> bool {
        self.state.operations.iter().any(|known| known.id == operation.id)
    }

    /// Whoever answers is asked before the codon begins (STATE-65).
    fn set_approval(&mut self, approval: Option<Approval>) -> Result<Applied, Rejected> {
        if let Some(open) = self.index.live_codon(self.state) {
            return Err(still_open(open));
        }
        if let Some(Approval { codon_id, .. }) = &approval
            && !self
                .state
                .execution_plan
                .iter()
                .any(|entry| entry.codon_id == *codon_id)
        {
            return Err(Rejected::not_found("codon", codon_id.as_str()));
        }
        self.state.approval = approval;
        Ok(Applied::TRANSITION)
    }

    /// The position of a run that has not ended.
    fn running(&self, id: &RunId) -> Result<usize, Rejected> {
        let position = self.index.run(self.state, id);
        let position = position.ok_or_else(|| Rejected::not_found("run", id.as_str()))?;
        let status = self.state.runs[position].status;
        if status.is_terminal() {
            return Err(already_ended(id, status));
        }
        Ok(position)
    }

    /// Takes the last step of the run machine (STATE-24, STATE-25). An open codon keeps the run open: it
    /// could never be closed again.
    fn end_run(&mut self, id: &RunId, how: RunTransition) -> Result<Applied, Rejected> {
        let position = self.running(id)?;
        if let Some(open) = self.index.open_codon(self.state, position) {
            return Err(still_open(&self.state.runs[position].codons[open]));
        }
        let leaves_no_current = !matches!(how, RunTransition::Crash(_)) || self.is_current(position);
        self.run_mut(position)
            .end(how)
            .map_err(|refused| already_ended(id, refused.from))?;
        if leaves_no_current {
            self.state.current_run_id = None;
        }
        self.index.run_ended(self.state, position);
        Ok(Applied::TRANSITION)
    }

    /// Marks a run as crashed and closes what it left open, in one step (L4).
    fn crash_run(&mut self, id: &RunId, detected_at: Timestamp) -> Result<Applied, Rejected> {
        let run = self.running(id)?;
        let open = self.index.open_codon(self.state, run);
        if let Some(place) = open.map(|codon| Place { run, codon })
            && let Ok(phase) = CodonPhase::try_from(self.codon(place).status())
        {
            let crash = CodonTransition::Fail(Fail::crashed(detected_at));
            let changed = advance(self.codon(place), crash, phase)?;
            self.replace(place, changed);
        }
        let crash = run::Crash {
            end_time: detected_at,
        };
        self.end_run(id, crash.into())
    }

    /// Opens a record, when the run has no open one (STATE-27).
    fn start_codon(&mut self, id: &RunId, opened: CodonExecution) -> Result<Applied, Rejected> {
        let position = self.running(id)?;
        if let Some(open) = self.index.open_codon(self.state, position) {
            return Err(still_open(&self.state.runs[position].codons[open]));
        }
        if self.state.pending_rollback.is_some() {
            let message = format!("run `{id}` is being left: only the next run takes up the way back");
            return Err(Rejected::Conflict(message));
        }
        self.run_mut(position).codons.push(Arc::new(opened));
        self.index.codon_started(self.state, position);
        Ok(Applied::TRANSITION)
    }

    fn step(
        &mut self,
        place: Place,
        from: CodonStatus,
        to: CodonStatus,
        metadata: Option<&Map<String, Value>>,
        at: Timestamp,
    ) -> Result<Applied, Rejected> {
        let codon = self.codon(place);
        let (transition, phase) = check_transition(codon, from, to, metadata, at)?;
        let mut changed = advance(codon, transition, phase)?;
        let noted = |name| metadata.and_then(|metadata| metadata.get(name)) == Some(&Value::Bool(true));
        if noted("contextExceeded") {
            changed.set_context_exceeded();
        }
        if noted("costIsLowerBound") {
            changed.set_cost_is_lower_bound();
        }
        if let Some(exceeded) = metadata.and_then(|metadata| metadata.get("budgetExceeded")) {
            changed.set_budget_exceeded(exceeded.clone());
        }
        if let Some(check) = metadata.and_then(|metadata| metadata.get("loopCheck")) {
            changed.set_loop_check(check.clone());
        }
        if let Some(metadata) = metadata.filter(|_| changed.is_terminal()) {
            changed.set_measured(metadata);
        }
        let applied = Applied {
            cost_before: codon.codon_cost(),
            cost_after: changed.codon_cost(),
            spend_before: codon.spend(),
            spend_after: changed.spend(),
            in_current_run: self.is_current(place.run),
            transition: true,
        };
        self.replace(place, changed);
        Ok(applied)
    }

    /// Puts the next state of a record in its place.
    fn replace(&mut self, place: Place, changed: CodonExecution) {
        let ended = changed.is_terminal();
        self.run_mut(place.run).codons[place.codon] = Arc::new(changed);
        if ended {
            self.index.codon_ended(self.state, place.run);
        }
    }

    /// Absolute values while the agent works and while its sentinels finish, or a late report would lose its
    /// cost (STATE-28).
    fn change_costs(
        &mut self,
        place: Place,
        change: impl FnOnce(Usd, TokenUsage) -> (Usd, TokenUsage),
    ) -> Result<Applied, Rejected> {
        let in_current_run = self.is_current(place.run);
        let spend_before = self.codon(place).spend();
        let (cost, tokens) = match self.codon_mut(place) {
            CodonExecution::Running(codon) => (&mut codon.current_cost, &mut codon.current_tokens.usage),
            CodonExecution::CompletingSentinels(codon) => {
                (&mut codon.current_cost, &mut codon.current_tokens.usage)
            }
            other => return Err(not_working(other, "costs")),
        };
        let cost_before = *cost;
        (*cost, *tokens) = change(*cost, *tokens);
        let cost_after = *cost;
        Ok(Applied {
            cost_before,
            cost_after,
            spend_before,
            spend_after: self.codon(place).spend(),
            in_current_run,
            transition: false,
        })
    }

    fn count_messages(&mut self, place: Place, new_count: u64) -> Result<Applied, Rejected> {
        match self.codon_mut(place) {
            CodonExecution::Running(codon) => codon.assistant_message_count = new_count,
            CodonExecution::CompletingSentinels(codon) => codon.assistant_message_count = new_count,
            other => return Err(not_working(other, "a message count")),
        }
        Ok(Applied::NOTHING)
    }

    /// The list of a codon that is open and past its set-up (STATE-29).
    fn replace_sentinels(
        &mut self,
        place: Place,
        states: &[SentinelState],
        total_cost: Usd,
    ) -> Result<Applied, Rejected> {
        let spend_before = self.codon(place).spend();
        let sentinels = match self.codon_mut(place) {
            CodonExecution::Starting(codon) => &mut codon.sentinels,
            CodonExecution::Initializing(codon) => &mut codon.sentinels,
            CodonExecution::Running(codon) => &mut codon.sentinels,
            CodonExecution::CompletingSentinels(codon) => &mut codon.sentinels,
            other => return Err(not_working(other, "sentinels")),
        };
        sentinels.replace(states.to_vec(), total_cost);
        Ok(Applied {
            spend_before,
            spend_after: self.codon(place).spend(),
            ..Applied::NOTHING
        })
    }

    /// Records a rig-setup checkpoint (STATE-30).
    ///
    /// Other checkpoints, and those of a codon that has ended, are in the transition that ends it.
    fn record_checkpoint(
        &mut self,
        place: Place,
        checkpoint_type: CheckpointType,
        sha: &CheckpointSha,
    ) -> Applied {
        if checkpoint_type != CheckpointType::RigSetup {
            return Applied::NOTHING;
        }
        let field = match self.codon_mut(place) {
            CodonExecution::Preparing(codon) => &mut codon.rig_setup_checkpoint,
            CodonExecution::Starting(codon) => &mut codon.rig_setup_checkpoint,
            CodonExecution::Initializing(codon) => &mut codon.rig_setup_checkpoint,
            CodonExecution::Running(codon) => &mut codon.rig_setup_checkpoint,
            CodonExecution::CompletingSentinels(codon) => &mut codon.rig_setup_checkpoint,
            _ => return Applied::NOTHING,
        };
        *field = Some(sha.clone());
        Applied::NOTHING
    }

    fn count_extensions(&mut self, place: Place, count: u64) -> Result<Applied, Rejected> {
        if self.codon(place).is_terminal() {
            return Err(not_working(self.codon(place), "an extension count"));
        }
        let extra = self.codon_mut(place).extra_mut();
        extra.insert("extensionCount", Value::from(count));
        Ok(Applied::NOTHING)
    }

    /// No codon is in a plan twice (STATE-31).
    fn replace_plan(&mut self, plan: &[PlanEntry]) -> Result<Applied, Rejected> {
        let mut seen = HashSet::new();
        if let Some(twice) = plan.iter().find(|entry| !seen.insert(&entry.codon_id)) {
            let message = format!("codon `{}` is in the plan twice", twice.codon_id);
            return Err(Rejected::Conflict(message));
        }
        self.state.execution_plan = Arc::new(plan.to_vec());
        Ok(Applied::TRANSITION)
    }
}

/// First the edge, then the metadata (STATE-15). A rig checkpoint that is known stays (STATE-20).
fn check_transition(
    codon: &CodonExecution,
    from: CodonStatus,
    to: CodonStatus,
    metadata: Option<&Map<String, Value>>,
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

/// Takes the step of the codon machine, and corrects the phase where an event names an earlier one than the
/// codon is in.
fn advance(
    codon: &CodonExecution,
    transition: CodonTransition,
    phase: CodonPhase,
) -> Result<CodonExecution, Rejected> {
    let mut changed = codon
        .clone()
        .apply(transition)
        .map_err(|refused| Rejected::InvalidTransition {
            from: refused.from,
            to: refused.to,
        })?;
    match &mut changed {
        CodonExecution::Failed(failed) => failed.failed_during = phase,
        CodonExecution::Skipped(skipped) => skipped.skipped_during = phase,
        _ => {}
    }
    Ok(changed)
}

fn already_ended(id: &RunId, status: RunStatus) -> Rejected {
    Rejected::Conflict(format!("run `{id}` has already ended: {status}"))
}

fn still_open(codon: &CodonExecution) -> Rejected {
    let (id, status) = (codon.codon_id(), codon.status());
    Rejected::Conflict(format!("codon `{id}` is still {status}"))
}

fn not_working(codon: &CodonExecution, what: &str) -> Rejected {
    let (id, status) = (codon.codon_id(), codon.status());
    Rejected::Conflict(format!("codon `{id}` is {status} and takes no {what}"))
}
