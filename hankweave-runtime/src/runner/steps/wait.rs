//! The waits of the run's loop: for a command when nothing starts by itself ([`idle`]), or until another attempt is due ([`wait_for_retry`]).

use hankweave_core::agent::InterruptedBy;
use hankweave_core::budget::Ceiling;
use hankweave_core::discovery::Activity;
use hankweave_core::document::HankweaveState;
use hankweave_core::hank::RehearsedKind;
use hankweave_core::id::CodonId;
use hankweave_core::plan::Retry;
use hankweave_core::thread::ThreadTip;
use hankweave_core::time::short_duration;
use hankweave_core::wire::{Event, IdleReason};
use tokio::time::Instant;

use super::super::approval;
use super::super::begin::StartPoint;
use super::super::command::{
    AcceptedCommand, CommandReply, Inbox, Refusal, RunCommand, RunnerRequest, answer,
};
use super::super::heartbeat::Heartbeat;
use super::super::outcome::{Pause, RunResult};
use super::super::wait::{Wait, WaitExceeded};
use super::next::NextStep;
use super::{ChosenCodon, LoopAction, RunLoopExit};
use crate::codon::{RunContext, rehearsal};

/// Waits for a command, because `next` does not start by itself for this `reason`.
pub(super) async fn idle(
    context: &RunContext,
    inbox: &mut Inbox,
    state: &HankweaveState,
    thread: &ThreadTip<'_>,
    next: &NextStep,
    reason: IdleReason,
) -> LoopAction {
    let message = match next {
        NextStep::Chosen(entry, _) | NextStep::Codon(entry, _) => format!("{} is next", entry.codon_id),
        NextStep::Asked(entry, question) => format!("{} waits for an approval: {question}", entry.codon_id),
        NextStep::Try(retry, _) => format!("{} can be tried again", retry.entry.codon_id),
        NextStep::Blocked(id) => format!("{id} failed; it can be run again"),
        NextStep::Nothing => "every codon of the plan has ended".to_owned(),
    };
    if let NextStep::Asked(entry, question) = next {
        let (codon_id, question) = (entry.codon_id.clone(), question.clone());
        context
            .publish(Event::ApprovalRequested { codon_id, question })
            .await;
    }
    context.publish(Event::ServerIdle { reason, message }).await;
    // After a failure, and for an answer, the run only waits while a user may send a command.
    let ends_when_deserted = match next {
        NextStep::Blocked(_) => !context.options.attended && context.options.autostart,
        NextStep::Asked(..) => !approval::is_attended(context),
        _ => false,
    };
    loop {
        // Cancel safe: both arms only wait.
        let request = tokio::select! {
            biased;
            request = next_command(context, inbox) => request,
            () = context.presence.deserted(), if ends_when_deserted => return LoopAction::Decide,
        };
        let Some(RunnerRequest { command, reply }) = request else {
            return LoopAction::Decide;
        };
        match command {
            RunCommand::Next => {
                if accept_next(next, reply) {
                    return LoopAction::Run;
                }
            }
            RunCommand::Answer {
                codon_id,
                granted,
                reason,
                by,
            } => match awaiting_approval(next, codon_id.as_ref()) {
                None => answer(reply, Err(Refusal::NotAsked(codon_id))),
                Some(id) => {
                    if let Some(action) = record_approval(context, id, granted, (reason, by), reply).await {
                        return action;
                    }
                }
            },
            RunCommand::Redo => match thread.newest() {
                Some(newest) => {
                    let codon_id = newest.codon.codon_id().clone();
                    let skip_rig = false;
                    return LoopAction::Leave(RunLoopExit::Again(
                        StartPoint::NewestCodonAgain,
                        reply,
                        ChosenCodon { codon_id, skip_rig },
                    ));
                }
                None => answer(reply, Err(Refusal::NothingToRedo)),
            },
            RunCommand::Start { codon_id, skip_rig } => {
                if let Some(action) = accept_chosen(state, ChosenCodon { codon_id, skip_rig }, reply) {
                    return action;
                }
            }
            RunCommand::RollBack { target, restart } => {
                return LoopAction::Leave(RunLoopExit::RollBack {
                    reply,
                    target,
                    restart,
                });
            }
            RunCommand::Skip | RunCommand::ForceStop { .. } => answer(reply, Err(Refusal::NothingRunning)),
        }
    }
}

/// The next command, or `None` when the run ends before one comes.
///
/// # Cancel safety
///
/// Nothing is lost when the future is dropped.
async fn next_command(context: &RunContext, inbox: &mut Inbox) -> Option<RunnerRequest> {
    tokio::select! {
        biased;
        () = context.shutdown.requested() => None,
        () = context.degraded() => None,
        request = inbox.next() => Some(request),
    }
}

/// Answers a command that starts the next codon; returns whether the codon can start.
fn accept_next(next: &NextStep, reply: CommandReply) -> bool {
    let result = match next {
        NextStep::Chosen(entry, _) | NextStep::Codon(entry, _) => Ok(entry.codon_id.clone()),
        NextStep::Try(retry, _) => Ok(retry.entry.codon_id.clone()),
        NextStep::Asked(entry, _) => Err(Refusal::ApprovalRequired(entry.codon_id.clone())),
        NextStep::Blocked(id) => Err(Refusal::Blocked(id.clone())),
        NextStep::Nothing => Err(Refusal::NothingNext),
    };
    let starts = result.is_ok();
    answer(reply, result.map(AcceptedCommand::Starting));
    starts
}

/// The codon that waits for an approval, if it is the `wanted` one or `wanted` names none.
fn awaiting_approval<'n>(next: &'n NextStep, wanted: Option<&CodonId>) -> Option<&'n CodonId> {
    match next {
        NextStep::Asked(entry, _) => {
            Some(&entry.codon_id).filter(|id| wanted.is_none_or(|wanted| wanted == *id))
        }
        _ => None,
    }
}

/// Records whether the codon may start, and answers the command; `None` when the decision could not be recorded.
async fn record_approval(
    context: &RunContext,
    id: &CodonId,
    granted: bool,
    (reason, by): (Option<String>, Option<String>),
    reply: CommandReply,
) -> Option<LoopAction> {
    let (result, action) = match approval::record(&context.manager, id, granted, reason, (by, None)).await {
        Err(error) => (Err(Refusal::NotRecorded(error)), None),
        Ok(()) if granted => (
            Ok(AcceptedCommand::Starting(id.clone())),
            Some(LoopAction::Approved(id.clone())),
        ),
        Ok(()) => (Ok(AcceptedCommand::Denied(id.clone())), Some(LoopAction::Decide)),
    };
    answer(reply, result);
    action
}

/// Accepts a codon that a command has chosen, or refuses the command and returns `None` (WIRE-12). A codon that has ended in the newest run needs
/// another run.
fn accept_chosen(state: &HankweaveState, choice: ChosenCodon, reply: CommandReply) -> Option<LoopAction> {
    let id = &choice.codon_id;
    if state.planned(id).is_none() {
        answer(reply, Err(Refusal::UnknownCodon(choice.codon_id)));
        return None;
    }
    let newest_run = state.runs.front();
    let has_ended = newest_run.is_some_and(|run| run.codons.iter().any(|codon| codon.codon_id() == id));
    if has_ended {
        return Some(LoopAction::Leave(RunLoopExit::Again(
            StartPoint::ChosenCodonAgain,
            reply,
            choice,
        )));
    }
    answer(reply, Ok(AcceptedCommand::Starting(id.clone())));
    Some(LoopAction::Choose(choice))
}

/// Reports what a real run would wait for before another attempt; a rehearsal never waits. A usage limit ends the rehearsal, because
/// the script would meet it again in every attempt.
pub(super) async fn rehearse_wait(context: &RunContext, retry: &Retry) -> LoopAction {
    let (text, action) = match retry.limit {
        Some(limit) => {
            let failed = RunResult::Failed(retry.entry.codon_id.clone());
            let text = format!("for its usage limit until {}", limit.ends_at);
            (text, LoopAction::Leave(RunLoopExit::Over(failed)))
        }
        None if retry.after.is_zero() => return LoopAction::Run,
        None => {
            let wait = short_duration(retry.after);
            let text = format!("{wait} before retry {} of {}", retry.number, retry.most);
            (text, LoopAction::Run)
        }
    };
    rehearsal::report(context, &retry.entry, RehearsedKind::Wait, text).await;
    action
}

/// Waits until another attempt is due, or a command comes. `failed` is the time at which the codon failed, if that was in this process.
pub(super) async fn wait_for_retry(
    context: &RunContext,
    heartbeat: &Heartbeat<'_>,
    inbox: &mut Inbox,
    state: &HankweaveState,
    retry: &Retry,
    failed: Option<Instant>,
) -> LoopAction {
    let id = &retry.entry.codon_id;
    let mut wait = match Wait::start(context, retry, failed) {
        Ok(wait) => wait,
        Err(WaitExceeded { why, needed }) => {
            return LoopAction::Leave(RunLoopExit::Over(RunResult::Paused(Pause {
                codon: id.clone(),
                by: InterruptedBy::UsageLimit,
                why,
                more: Ceiling::default(),
                patience: Some(needed),
            })));
        }
    };
    let up = context.world.clock.uptime();
    heartbeat
        .set_activity(up.map(|up| Activity::wait(id, up + wait.remaining())))
        .await;
    context
        .publish(Event::Info {
            message: wait.words(),
        })
        .await;
    context.publish(wait.event()).await;
    loop {
        // Cancel safe: both arms only wait.
        let request = tokio::select! {
            biased;
            request = next_command(context, inbox) => request,
            over = wait.wait() => match over {
                true => return LoopAction::Run,
                false => {
                    context.publish(Event::Info { message: wait.words() }).await;
                    continue;
                }
            },
        };
        let Some(RunnerRequest { command, reply }) = request else {
            return LoopAction::Decide;
        };
        match command {
            RunCommand::Next | RunCommand::Redo => {
                answer(reply, Ok(AcceptedCommand::Starting(id.clone())));
                return LoopAction::Run;
            }
            RunCommand::Start { codon_id, skip_rig } => {
                if let Some(action) = accept_chosen(state, ChosenCodon { codon_id, skip_rig }, reply) {
                    return action;
                }
            }
            RunCommand::ForceStop { .. } if context.is_attended() => {
                answer(reply, Ok(AcceptedCommand::Stopping(id.clone())));
                return LoopAction::Pause;
            }
            RunCommand::ForceStop { .. } => {
                answer(reply, Ok(AcceptedCommand::Stopping(id.clone())));
                return LoopAction::Leave(RunLoopExit::Over(RunResult::Failed(id.clone())));
            }
            RunCommand::RollBack { target, restart } => {
                return LoopAction::Leave(RunLoopExit::RollBack {
                    reply,
                    target,
                    restart,
                });
            }
            RunCommand::Answer { codon_id, .. } => answer(reply, Err(Refusal::NotAsked(codon_id))),
            RunCommand::Skip => answer(reply, Err(Refusal::NothingRunning)),
        }
    }
}
