//! Next step of a run, by its records or by a command.

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
    /// Another attempt, and the rig that is already set up for it.
    Try(Retry, Option<CheckpointSha>),
    /// Nothing, because this codon failed.
    Blocked(CodonId),
    /// Nothing, because the plan has ended.
    Nothing,
}

impl NextStep {
    /// Why it waits for a command; `None` when it starts by itself.
    pub(super) fn waits_for_command(&self, go: Autostart) -> Option<IdleReason> {
        match (self, go) {
            (Self::Chosen(..), _) | (Self::Codon(..) | Self::Try(..), Autostart::On) => None,
            (Self::Codon(..) | Self::Try(..), Autostart::Wait(reason)) => Some(reason),
            (Self::Asked(..), _) => Some(IdleReason::ApprovalRequired),
            (Self::Blocked(_), go) => Some(go.reason_or(IdleReason::CodonCompleted)),
            (Self::Nothing, go) => Some(go.reason_or(IdleReason::AllCodonsCompleted)),
        }
    }
}

/// Decision from the records.
pub(super) enum StepDecision {
    Next(NextStep),
    /// A loop continues or ends, and the plan with it.
    Extend(PlanExtension),
    /// Nothing is left to do in this process.
    Over(RunResult),
}

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
            // Without budget an approval would start nothing.
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

/// The end of a run whose loop repeats itself, before the iteration that begins with this codon.
fn stuck(state: &HankweaveState, codon: CodonId) -> RunResult {
    RunResult::Paused(Pause {
        why: stuck_words(state, &codon).unwrap_or_default(),
        codon,
        by: InterruptedBy::Stuck,
        more: Ceiling::default(),
        patience: None,
    })
}

/// The entry of the plan that was chosen.
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

/// A retriable failure keeps an attended run alive (HANK-41).
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

/// Returns the rig that the failed attempt of this run had set up, or an interrupted codon in the run before. The next attempt
/// uses it (HANK-23).
fn finished_rig(context: &RunContext, thread: &ThreadTip<'_>) -> Option<CheckpointSha> {
    let failed = thread
        .newest()
        .filter(|failed| failed.run.run_id == context.run_id || failed.codon.interruption().is_some())?;
    failed.codon.rig_setup_checkpoint().cloned()
}

/// The pause of the run at this codon.
pub(super) fn pause(context: &RunContext, codon: CodonId, by: InterruptedBy, why: String) -> Pause {
    let whole = CeilingUse::of(context.ceiling(), &context.manager.snapshot());
    let more = whole.more();
    let why = match more == Ceiling::default() {
        true => why,
        false => format!("{why}: {whole}"),
    };
    Pause {
        codon,
        by,
        why,
        more,
        patience: None,
    }
}
