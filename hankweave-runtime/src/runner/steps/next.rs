//! The next step of a run: decided from the records ([`decided`]), or chosen by a command ([`choose`]).

use hankweave_core::agent::InterruptedBy;
use hankweave_core::budget::{Ceiling, CeilingUse, RunBudgets};
use hankweave_core::codon::CodonExecution;
use hankweave_core::document::{HankweaveState, PlanEntry, PlanExtension};
use hankweave_core::id::{CheckpointSha, CodonId};
use hankweave_core::plan::{BlockedBy, Decision, ExpandError, Retry, decide, stuck_words};
use hankweave_core::thread::ThreadTip;
use hankweave_core::wire::IdleReason;

use super::super::approval;
use super::super::error::RunError;
use super::super::outcome::{Pause, RunResult};
use super::{Autostart, ChosenCodon};
use crate::codon::{NoBudget, RigNeed, RunContext, no_budget_left};

/// Next step.
pub(super) enum NextStep {
    /// A codon that was chosen by a command.
    Chosen(Box<PlanEntry>, RigNeed),
    /// A codon, and the rig that is set up for it already.
    Codon(Box<PlanEntry>, Option<CheckpointSha>),
    /// A codon that needs an approval, and the question to the user.
    Asked(Box<PlanEntry>, String),
    /// Another attempt of a codon, and the rig that is set up for it already.
    Try(Retry, Option<CheckpointSha>),
    /// Nothing, because this codon failed.
    Blocked(CodonId),
    /// Nothing, because the plan has ended.
    Nothing,
}

impl NextStep {
    /// Why the step waits for a command; `None` when it starts by itself.
    pub(super) fn waits_for_command(&self, autostart: Autostart) -> Option<IdleReason> {
        match (self, autostart) {
            (Self::Chosen(..), _) | (Self::Codon(..) | Self::Try(..), Autostart::On) => None,
            (Self::Codon(..) | Self::Try(..), Autostart::Wait(reason)) => Some(reason),
            (Self::Asked(..), _) => Some(IdleReason::ApprovalRequired),
            (Self::Blocked(_), autostart) => Some(autostart.reason_or(IdleReason::CodonCompleted)),
            (Self::Nothing, autostart) => Some(autostart.reason_or(IdleReason::AllCodonsCompleted)),
        }
    }
}

/// Decision from the records.
pub(super) enum StepDecision {
    Next(NextStep),
    /// The plan is extended first: a loop gets its next iteration, or ends.
    Extend(PlanExtension),
    /// The run ends with this result, and no other run follows in this process.
    Over(RunResult),
}

/// Decides from the records, and adds what this process knows: rigs that are set up, and whether a user can answer.
pub(super) fn decided(
    context: &RunContext,
    budgets: &mut RunBudgets<'_>,
    state: &HankweaveState,
    thread: &ThreadTip<'_>,
) -> Result<StepDecision, RunError> {
    Ok(match decide(state, &context.hank) {
        Decision::Extend(extension) => StepDecision::Extend(extension),
        Decision::Start(entry) => {
            let rig = context.rig.clone().filter(|_| is_first_of_run(state));
            StepDecision::Next(NextStep::Codon(entry, rig))
        }
        Decision::Ask(entry) => {
            // Without budget an approved codon could not start, so the question is not asked.
            match no_budget_left(&budgets.limits(state, &entry)) {
                None => {}
                Some(NoBudget::Ends) => return Ok(StepDecision::Next(NextStep::Codon(entry, None))),
                Some(NoBudget::Pauses(why)) => {
                    let paused = pause(context, entry.codon_id, InterruptedBy::Ceiling, why);
                    return Ok(StepDecision::Over(RunResult::Paused(paused)));
                }
            }
            let question = approval::question(context, &entry);
            match approval::can_be_asked(context) {
                true => StepDecision::Next(NextStep::Asked(entry, question)),
                false => StepDecision::Over(approval::pause(entry.codon_id, question)),
            }
        }
        Decision::Blocked(BlockedBy::Stuck(id)) => StepDecision::Over(stuck(state, id)),
        Decision::Blocked(BlockedBy::Denied(id)) => StepDecision::Over(approval::denied(state, id)),
        Decision::Retry(retry) => StepDecision::Next(NextStep::Try(retry, finished_rig(context, thread))),
        Decision::Done if context.options.autostart => StepDecision::Over(RunResult::Completed),
        Decision::Done => StepDecision::Next(NextStep::Nothing),
        Decision::Blocked(BlockedBy::FailedCodon(id)) if waits_for_user(context, thread) => {
            StepDecision::Next(NextStep::Blocked(id))
        }
        Decision::Blocked(BlockedBy::FailedCodon(id)) => StepDecision::Over(RunResult::Failed(id)),
        Decision::Blocked(BlockedBy::ChangedHank(error)) => return Err(RunError::ChangedHank(error)),
        Decision::Blocked(BlockedBy::MissingParent) => return Err(RunError::MissingParent),
        // Only this loop starts codons, and each has ended before the next decision.
        Decision::Wait => return Err(RunError::CodonLeftOpen),
    })
}

/// The result of a run whose loop repeats itself; it pauses before the iteration that starts with this codon.
fn stuck(state: &HankweaveState, codon: CodonId) -> RunResult {
    RunResult::Paused(Pause {
        why: stuck_words(state, &codon).unwrap_or_default(),
        codon,
        by: InterruptedBy::Stuck,
        more: Ceiling::default(),
        patience: None,
    })
}

/// Returns the step for a codon that a command has chosen.
pub(super) fn choose(state: &HankweaveState, choice: ChosenCodon) -> Result<NextStep, RunError> {
    let rig = match choice.skip_rig {
        true => RigNeed::LeftOut,
        false => RigNeed::SetUp,
    };
    match state.planned(&choice.codon_id) {
        Some(entry) => Ok(NextStep::Chosen(Box::new(entry.clone()), rig)),
        None => Err(RunError::ChangedHank(ExpandError::UnknownCodon(choice.codon_id))),
    }
}

/// Whether the run waits for its user after a failed codon: if the failure can be retried and a user may send a command (HANK-41).
fn waits_for_user(context: &RunContext, thread: &ThreadTip<'_>) -> bool {
    let newest = thread.newest().map(|entry| entry.codon.as_ref());
    let retriable = newest.is_some_and(
        |codon| matches!(codon, CodonExecution::Failed(failed) if failed.failure_reason.retriable),
    );
    context.is_attended() && retriable
}

fn is_first_of_run(state: &HankweaveState) -> bool {
    state.runs.front().is_none_or(|run| run.codons.is_empty())
}

/// Returns the checkpoint of the rig that the newest attempt had set up, if that attempt failed in this run or was interrupted. The
/// next attempt does not set the rig up again (HANK-23).
fn finished_rig(context: &RunContext, thread: &ThreadTip<'_>) -> Option<CheckpointSha> {
    let failed = thread
        .newest()
        .filter(|failed| failed.run.run_id == context.run_id || failed.codon.interruption().is_some())?;
    failed.codon.rig_setup_checkpoint().cloned()
}

/// The pause of the run at this codon, with the total budget if that has to be raised.
pub(super) fn pause(context: &RunContext, codon: CodonId, by: InterruptedBy, why: String) -> Pause {
    let total = CeilingUse::of(context.ceiling(), &context.manager.snapshot());
    let more = total.more();
    let why = match more == Ceiling::default() {
        true => why,
        false => format!("{why}: {total}"),
    };
    Pause {
        codon,
        by,
        why,
        more,
        patience: None,
    }
}
