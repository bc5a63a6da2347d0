//! The reducer: applies one event to the document, or refuses the event with a reason (STATE-14 to STATE-32). [`LiveState`](super::LiveState) calls it.

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
    /// Cost of the changed codon before the event.
    pub cost_before: Usd,
    /// Cost of the changed codon after the event.
    pub cost_after: Usd,
    /// Spending for the changed codon, with its sentinels, before the event.
    pub spend_before: Usd,
    /// Spending for the changed codon, with its sentinels, after the event.
    pub spend_after: Usd,
    /// Whether the changed codon belongs to the run that was current before the event.
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
/// The time that this takes does not depend on the length of the history: `index` finds the run and the codon, and only these two are changed.
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
            let record = reducer.record_position(run_id, codon_id)?;
            reducer.step(record, *from, *to, metadata.as_ref(), at)
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
            let record = reducer.record_position(run_id, codon_id)?;
            reducer.change_costs(record, |_, _| (*cost, *tokens))
        }
        StateEvent::CostsIncremented {
            run_id,
            codon_id,
            cost_delta,
            tokens_delta,
        } => {
            let record = reducer.record_position(run_id, codon_id)?;
            reducer.change_costs(record, |cost, tokens| {
                (cost + *cost_delta, tokens + *tokens_delta)
            })
        }
        StateEvent::AssistantMessageCountUpdated {
            run_id,
            codon_id,
            new_count,
        } => {
            let record = reducer.record_position(run_id, codon_id)?;
            reducer.count_messages(record, *new_count)
        }
        StateEvent::SentinelStatesUpdated {
            run_id,
            codon_id,
            sentinel_states,
            total_cost,
            after_end,
        } => {
            let record = reducer.record_position(run_id, codon_id)?;
            match after_end {
                Some(true) => reducer.finish_sentinels(record, sentinel_states, *total_cost),
                _ => reducer.replace_sentinels(record, sentinel_states, *total_cost),
            }
        }
        StateEvent::CheckpointCreated {
            run_id,
            codon_id,
            checkpoint_type,
            sha,
            branch: _,
        } => {
            let record = reducer.record_position(run_id, codon_id)?;
            Ok(reducer.record_checkpoint(record, *checkpoint_type, sha))
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
            let record = reducer.record_position(run_id, codon_id)?;
            reducer.count_extensions(record, *extension_count)
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

/// A document that is being changed, with its index. Every method checks everything before it changes anything.
struct Reducer<'a> {
    state: &'a mut HankweaveState,
    index: &'a mut Index,
}

impl Reducer<'_> {
    /// The position of the record that an event is about.
    fn record_position(&mut self, run_id: &RunId, codon_id: &CodonId) -> Result<RecordPosition, Rejected> {
        self.index.codon(self.state, run_id, codon_id)
    }

    fn codon(&self, record: RecordPosition) -> &CodonExecution {
        &self.state.runs[record.run].codons[record.codon]
    }

    /// The record, to be changed; it is copied first if a snapshot shares it.
    fn codon_mut(&mut self, record: RecordPosition) -> &mut CodonExecution {
        Arc::make_mut(&mut self.run_mut(record.run).codons[record.codon])
    }

    fn run_mut(&mut self, position: usize) -> &mut RunRecord {
        Arc::make_mut(&mut self.state.runs[position])
    }

    fn is_current(&self, run: usize) -> bool {
        self.state.current_run_id.as_ref() == Some(&self.state.runs[run].run_id)
    }

    /// Replaces a record by its next state.
    fn replace(&mut self, record: RecordPosition, changed: CodonExecution) {
        let ended = changed.is_terminal();
        self.run_mut(record.run).codons[record.codon] = Arc::new(changed);
        if ended {
            self.index.codon_ended(self.state, record.run);
        }
    }
}

/// Makes a step of the codon machine. A failed or skipped codon then gets the phase that the event names, which may be earlier than that of the codon.
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
