//! The loop of a run ([`run_codons`]): decides on the next step, waits before it where that is needed, and runs its codon; carries out commands.

mod agent;
mod codon;
mod next;
mod wait;

use std::ops::ControlFlow;

use hankweave_core::agent::InterruptedBy;
use hankweave_core::budget::{Ceiling, RunBudgets};
use hankweave_core::discovery::Activity;
use hankweave_core::event::StateEvent;
use hankweave_core::id::CodonId;
use hankweave_core::plan::{Decision, DeclaredPatterns, decide};
use hankweave_core::thread::ThreadTip;
use hankweave_core::wire::IdleReason;
use tokio::time::Instant;

use self::agent::wait_left;
use self::codon::{CodonResult, run_codon};
use self::next::{NextStep, StepDecision, choose, decided, pause};
use self::wait::{idle, rehearse_wait, wait_for_retry};
use super::begin::StartPoint;
use super::command::{CommandReply, Inbox};
use super::disk::DiskWatch;
use super::error::RunError;
use super::heartbeat::Heartbeat;
use super::outcome::{Pause, RunResult};
use super::target::RollbackTarget;
use crate::codon::{RunContext, rehearsal};
use crate::shutdown::StopCause;
use crate::state_manager::TransitionError;

/// Whether codons start by themselves (RUN-9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Autostart {
    /// All of them do.
    On,
    /// None does before a command starts it.
    Wait(IdleReason),
}

impl Autostart {
    /// Returns why the run is idle when nothing can start: the rollback after which no codon starts by itself, if there was one, or else `otherwise`.
    fn reason_or(self, otherwise: IdleReason) -> IdleReason {
        match self {
            Self::Wait(reason @ IdleReason::RollbackCompleted) => reason,
            Self::On | Self::Wait(_) => otherwise,
        }
    }
}

/// How the loop of one run ends.
pub(super) enum RunLoopExit {
    /// No other run follows in this process.
    Over(RunResult),
    /// A codon that has ended runs again, in a new run.
    Again(StartPoint, CommandReply, ChosenCodon),
    /// A new run starts at an earlier point.
    RollBack {
        reply: CommandReply,
        target: RollbackTarget,
        /// Whether the next codon then starts by itself.
        restart: bool,
    },
}

/// A codon that was chosen by a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ChosenCodon {
    pub(super) codon_id: CodonId,
    pub(super) skip_rig: bool,
}

/// Action of the loop after a wait.
enum LoopAction {
    /// Run the next step.
    Run,
    /// Something may have changed: decide again.
    Decide,
    /// Decide again; this codon was approved, and starts if it is still the next one.
    Approved(CodonId),
    /// Run this codon.
    Choose(ChosenCodon),
    /// Wait for a command.
    Pause,
    /// Leave the loop.
    Leave(RunLoopExit),
}

/// Runs codons, the chosen one first, until nothing is left, something fails, the run is asked to stop, or a
/// command asks for another run. Sets `newest_end` to the time at which the newest codon of the run ended.
pub(super) async fn run_codons(
    context: &RunContext,
    heartbeat: &Heartbeat<'_>,
    inbox: &mut Inbox,
    autostart: &mut Autostart,
    mut chosen: Option<ChosenCodon>,
    newest_end: &mut Option<Instant>,
) -> Result<RunLoopExit, RunError> {
    // The newest codon, when its checkpoint could not be written.
    let mut unsaved = None;
    // The codon that a command has just approved, which starts it.
    let mut approved = None;
    let mut budgets = RunBudgets::of(&context.hank, context.ceiling());
    let mut declared = DeclaredPatterns::default();
    let mut disk = DiskWatch::default();
    loop {
        if let Some(cause) = context.shutdown.cause() {
            return Ok(RunLoopExit::Over(stopped(context, cause)));
        }
        if let Some(failure) = context.failure() {
            return Err(TransitionError::NotDurable(failure).into());
        }
        let state = context.manager.snapshot();
        let thread = ThreadTip::of(&state);
        let next = match chosen.take() {
            Some(choice) => choose(&state, choice)?,
            None => match decided(context, &mut budgets, &state, &thread)? {
                StepDecision::Next(next) => next,
                StepDecision::Over(RunResult::Failed(id)) if unsaved.as_ref() == Some(&id) => {
                    return Ok(RunLoopExit::Over(RunResult::Unsaved(id)));
                }
                StepDecision::Over(result) => return Ok(RunLoopExit::Over(result)),
                StepDecision::Extend(extension) => {
                    let extended = StateEvent::PlanExtended { extension };
                    context.manager.transition(extended).await.await?;
                    continue;
                }
            },
        };
        let is_approved = match &next {
            NextStep::Codon(entry, _) => approved.take().as_ref() == Some(&entry.codon_id),
            _ => false,
        };
        let idle_reason = match is_approved {
            true => None,
            false => next.waits_for_command(*autostart),
        };
        let action = match (idle_reason, &next) {
            (Some(reason), _) => idle(context, inbox, &state, &thread, &next, reason).await,
            (None, NextStep::Try(retry, _)) if context.options.rehearsal => {
                rehearse_wait(context, retry).await
            }
            (None, NextStep::Try(retry, _)) => match wait_left(context, &thread, retry) {
                Some(retry) => wait_for_retry(context, heartbeat, inbox, &state, &retry, *newest_end).await,
                None => LoopAction::Run,
            },
            (None, _) => LoopAction::Run,
        };
        match action {
            LoopAction::Run => {}
            LoopAction::Decide => continue,
            LoopAction::Approved(id) => {
                approved = Some(id);
                continue;
            }
            LoopAction::Choose(choice) => {
                chosen = Some(choice);
                continue;
            }
            LoopAction::Pause => {
                *autostart = Autostart::Wait(IdleReason::CodonCompleted);
                continue;
            }
            LoopAction::Leave(exit) => return Ok(exit),
        }
        let (entry, rig) = match next {
            NextStep::Chosen(entry, rig) => (entry, rig),
            NextStep::Codon(entry, rig) => (entry, rig.into()),
            NextStep::Try(retry, rig) => (retry.entry, rig.into()),
            // `idle` never returns `LoopAction::Run` for these.
            NextStep::Asked(..) | NextStep::Blocked(_) | NextStep::Nothing => continue,
        };
        if let Some(why) = disk.no_room(context).await {
            return Ok(RunLoopExit::Over(RunResult::Paused(Pause {
                codon: entry.codon_id,
                by: InterruptedBy::Disk,
                why,
                more: Ceiling::default(),
                patience: None,
            })));
        }
        rehearsal::report_before(context, &entry).await;
        let up = context.world.clock.uptime();
        heartbeat
            .set_activity(up.map(|up| Activity::codon(&entry.codon_id, up)))
            .await;
        let limits = budgets.limits(&state, &entry);
        let patterns = declared.until(&state, &entry.codon_id).to_vec();
        let result = Box::pin(run_codon(context, inbox, &state, limits, (&entry, patterns), rig)).await?;
        *newest_end = Some(Instant::now());
        unsaved = matches!(result, CodonResult::Unsaved).then(|| entry.codon_id.clone());
        let was_forced = match consequence(context, entry.codon_id, result) {
            ControlFlow::Break(result) => return Ok(RunLoopExit::Over(result)),
            ControlFlow::Continue(was_forced) => was_forced,
        };
        if was_forced || !context.options.autostart {
            *autostart = Autostart::Wait(IdleReason::CodonCompleted);
        }
    }
}

/// Returns the result of a run that is asked to stop: a pause, if a sentinel asked for it and something is left to do.
fn stopped(context: &RunContext, cause: StopCause) -> RunResult {
    let state = context.manager.snapshot();
    let newest = state.runs.front().and_then(|run| run.codons.last());
    let is_pause = cause == StopCause::Sentinel && decide(&state, &context.hank) != Decision::Done;
    match newest.filter(|_| is_pause) {
        Some(codon) => {
            let why = context.shutdown.words();
            RunResult::Paused(pause(
                context,
                codon.codon_id().clone(),
                InterruptedBy::Sentinel,
                why,
            ))
        }
        None => RunResult::Stopped(cause),
    }
}

/// Returns the consequence of an ended codon: the result of the run if the loop ends, otherwise whether the codon was stopped by force.
fn consequence(context: &RunContext, id: CodonId, result: CodonResult) -> ControlFlow<RunResult, bool> {
    ControlFlow::Break(match (result, context.shutdown.cause()) {
        (CodonResult::Unpublished(_) | CodonResult::Paused(..), Some(cause)) => stopped(context, cause),
        (CodonResult::Unpublished(why), None) => RunResult::OutputFailed(id, why),
        (CodonResult::Paused(by, why), None) => RunResult::Paused(pause(context, id, by, why)),
        (CodonResult::Forced, _) if !context.is_attended() => RunResult::Failed(id),
        (CodonResult::Forced, _) => return ControlFlow::Continue(true),
        (CodonResult::Unsaved | CodonResult::ToTheEnd, _) => return ControlFlow::Continue(false),
    })
}
