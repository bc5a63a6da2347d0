//! The reducer: state and event in, changed state or a reason out (STATE-14 to STATE-32).

mod codons;
mod runs;

use std::sync::Arc;

use super::index::{Index, RecordPosition};
use super::rejected::Rejected;
use crate::codon::{Codon, CodonExecution, CodonPhase, CodonTransition};
use crate::cost::Usd;
use crate::document::{HankweaveState, RunRecord, RunStatus, SharedList};
use crate::event::StateEvent;
use crate::id::{CodonId, RunId};
use crate::run;
use crate::time::Timestamp;

/// Change made by an accepted event, for running totals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Applied {
    /// The cost of the touched codons before the event.
    pub cost_before: Usd,
    /// Their cost after it.
    pub cost_after: Usd,
    /// Spending for them before the event.
    pub spend_before: Usd,
    /// Spending for them after the event.
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
            codons: SharedList::new(),
            status: RunStatus::Running,
            start_time: at,
            end_time: None,
            server_pid: *server_pid,
            interrupted_by: None,
            cause: None,
            left_plan: None,
            extra: Default::default(),
        }),
        StateEvent::RunCompleted { run_id, cause } => {
            let position = reducer.running(run_id)?;
            let applied = reducer.end_run(run_id, run::Complete { end_time: at }.into())?;
            reducer.run_mut(position).cause.clone_from(cause);
            Ok(applied)
        }
        StateEvent::RunFailed {
            run_id,
            interrupted_by,
            cause,
        } => {
            let position = reducer.running(run_id)?;
            let applied = reducer.end_run(run_id, run::Fail { end_time: at }.into())?;
            let run = reducer.run_mut(position);
            (run.interrupted_by, run.cause) = (*interrupted_by, cause.clone());
            Ok(applied)
        }
        StateEvent::RunCrashed {
            run_id,
            detected_at,
            last_codon_status: _,
            last_heartbeat: _,
        } => reducer.crash_run(run_id, *detected_at),
        StateEvent::CodonStarted {
            run_id,
            codon_id,
            loop_context,
            chosen_agent,
            start_checkpoint,
        } => {
            let mut opened = Codon::new(codon_id.clone(), at, loop_context.clone()).into_execution();
            if let Some(chosen) = chosen_agent {
                opened.set_chosen_agent(chosen);
            }
            if let Some(start) = start_checkpoint {
                opened.set_start_checkpoint(start);
            }
            reducer.start_codon(run_id, opened, chosen_agent.as_ref())
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
            after_end,
        } => {
            let place = reducer.place(run_id, codon_id)?;
            match after_end {
                Some(true) => reducer.finish_sentinels(place, sentinel_states, *total_cost),
                _ => reducer.replace_sentinels(place, sentinel_states, *total_cost),
            }
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
        StateEvent::RollbackPending {
            rollback,
            execution_plan,
        } => reducer.set_rollback(rollback.clone(), execution_plan.as_ref()),
        StateEvent::ApprovalSet { approval } => reducer.set_approval(approval.clone()),
        StateEvent::OperationRecorded { operation } => reducer.record_operation(operation),
        StateEvent::PlanReplaced { execution_plan } => reducer.replace_plan(execution_plan),
        StateEvent::PlanExtended { extension } => reducer.extend_plan(extension),
    }
}

/// A document that is being changed, with the places of its parts. Every method checks first and changes
/// then.
struct Reducer<'a> {
    state: &'a mut HankweaveState,
    index: &'a mut Index,
}

impl Reducer<'_> {
    fn place(&mut self, run_id: &RunId, codon_id: &CodonId) -> Result<RecordPosition, Rejected> {
        self.index.codon(self.state, run_id, codon_id)
    }

    fn codon(&self, place: RecordPosition) -> &CodonExecution {
        &self.state.runs[place.run].codons[place.codon]
    }

    /// The record for changing; copies only what a snapshot shares.
    fn codon_mut(&mut self, place: RecordPosition) -> &mut CodonExecution {
        Arc::make_mut(&mut self.run_mut(place.run).codons[place.codon])
    }

    fn run_mut(&mut self, position: usize) -> &mut RunRecord {
        Arc::make_mut(&mut self.state.runs[position])
    }

    fn is_current(&self, run: usize) -> bool {
        self.state.current_run_id.as_ref() == Some(&self.state.runs[run].run_id)
    }

    /// Puts the next state of a record in its place.
    fn replace(&mut self, place: RecordPosition, changed: CodonExecution) {
        let ended = changed.is_terminal();
        self.run_mut(place.run).codons[place.codon] = Arc::new(changed);
        if ended {
            self.index.codon_ended(self.state, place.run);
        }
    }
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
