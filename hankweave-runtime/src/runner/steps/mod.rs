//! The loop of a run: decides what is next, runs it, and carries out commands.

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
    /// Why the run is idle when nothing can start: after a rollback, that is the reason until a codon has
    /// run.
    fn reason_or(self, otherwise: IdleReason) -> IdleReason {
        match self {
            Self::Wait(reason @ IdleReason::RollbackCompleted) => reason,
            Self::On | Self::Wait(_) => otherwise,
        }
    }
}

/// How the loop of one run ends.
pub(super) enum RunLoopExit {
    /// Nothing is left to do in this process.
    Over(RunResult),
    /// A codon that has ended runs again, in a new run.
    Again(StartPoint, CommandReply, ChosenCodon),
    /// A new run begins at an earlier point.
    RollBack(CommandReply, RollbackTarget, bool),
}

/// A codon that was chosen by a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ChosenCodon {
    pub(super) codon_id: CodonId,
    pub(super) skip_rig: bool,
}

/// Step after a wait.
enum LoopAction {
    /// Run what is next.
    Run,
    /// Something may have changed: decide again.
    Decide,
    /// Run this codon, unless something has changed.
    Approved(CodonId),
    /// Run this codon.
    Choose(ChosenCodon),
    /// Start nothing before a command does.
    Pause,
    /// Leave the loop.
    Leave(RunLoopExit),
}

/// Runs codons, the chosen one first, until nothing is left, something fails, the run is asked to stop, or a
/// command asks for another run. `ended` is the time when the newest codon of the run ended.
pub(super) async fn run_codons(
    context: &RunContext,
    heartbeat: &Heartbeat<'_>,
    inbox: &mut Inbox,
    go: &mut Autostart,
    mut chosen: Option<ChosenCodon>,
    ended: &mut Option<Instant>,
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
        let starts = match &next {
            NextStep::Codon(entry, _) => approved.take().as_ref() == Some(&entry.codon_id),
            _ => false,
        };
        let turn = match (next.waits_for_command(*go).filter(|_| !starts), &next) {
            (Some(reason), _) => idle(context, inbox, &state, &thread, &next, reason).await,
            (None, NextStep::Try(retry, _)) if context.options.rehearsal => {
                rehearse_wait(context, retry).await
            }
            (None, NextStep::Try(retry, _)) => match wait_left(context, &thread, retry) {
                Some(retry) => wait_for_retry(context, heartbeat, inbox, &state, &retry, *ended).await,
                None => LoopAction::Run,
            },
            (None, _) => LoopAction::Run,
        };
        match turn {
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
                *go = Autostart::Wait(IdleReason::CodonCompleted);
                continue;
            }
            LoopAction::Leave(end) => return Ok(end),
        }
        let (entry, rig) = match next {
            NextStep::Chosen(entry, rig) => (entry, rig),
            NextStep::Codon(entry, rig) => (entry, rig.into()),
            NextStep::Try(retry, rig) => (retry.entry, rig.into()),
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
        let ran = Box::pin(run_codon(context, inbox, &state, limits, (&entry, patterns), rig)).await?;
        *ended = Some(Instant::now());
        unsaved = matches!(ran, CodonResult::Unsaved).then(|| entry.codon_id.clone());
        let forced = match follows(context, entry.codon_id, ran) {
            ControlFlow::Break(result) => return Ok(RunLoopExit::Over(result)),
            ControlFlow::Continue(forced) => forced,
        };
        if forced || !context.options.autostart {
            *go = Autostart::Wait(IdleReason::CodonCompleted);
        }
    }
}

/// Returns the end of a run that is asked to stop: a pause where a sentinel has asked and something is left to do.
fn stopped(context: &RunContext, cause: StopCause) -> RunResult {
    let state = context.manager.snapshot();
    let newest = state.runs.front().and_then(|run| run.codons.last());
    match newest.filter(|_| cause == StopCause::Sentinel && decide(&state, &context.hank) != Decision::Done) {
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

/// Returns the consequence of an ended codon: the end of the loop, or whether it was stopped by force.
fn follows(context: &RunContext, id: CodonId, ran: CodonResult) -> ControlFlow<RunResult, bool> {
    ControlFlow::Break(match (ran, context.shutdown.cause()) {
        (CodonResult::Unpublished(_) | CodonResult::Paused(..), Some(cause)) => stopped(context, cause),
        (CodonResult::Unpublished(why), None) => RunResult::OutputFailed(id, why),
        (CodonResult::Paused(by, why), None) => RunResult::Paused(pause(context, id, by, why)),
        (CodonResult::Forced, _) if !context.is_attended() => RunResult::Failed(id),
        (CodonResult::Forced, _) => return ControlFlow::Continue(true),
        (CodonResult::Unsaved | CodonResult::ToTheEnd, _) => return ControlFlow::Continue(false),
    })
}
