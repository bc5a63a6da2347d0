//! The loop of a run: decides what is next, runs it, and carries out commands.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use hankweave_core::agent::InterruptedBy;
use hankweave_core::budget::{self, Ceiling, CeilingUse, Meter};
use hankweave_core::codon::CodonExecution;
use hankweave_core::discovery::Activity;
use hankweave_core::document::{HankweaveState, PlanEntry};
use hankweave_core::hank::OnExceeded;
use hankweave_core::id::{CheckpointSha, CodonId, SessionId};
use hankweave_core::plan::{BlockedBy, Decision, ExpandError, Retry, checkpoint_patterns, decide};
use hankweave_core::thread::{self, ExecutionThread};
use hankweave_core::wire::{Event, IdleReason};
use tokio::time::Instant;

use super::aftermath::{Aftermath, Unpublished};
use super::approval;
use super::begin::BeginAt;
use super::command::{Accepted, Command, Inbox, Refusal, Reply, Request, answer};
use super::error::RunError;
use super::heartbeat::Heartbeat;
use super::outcome::{Pause, RunResult};
use super::target::RollbackTarget;
use super::wait::{TooLong, Wait};
use crate::arrival;
use crate::codon::{self, CodonEnd, CodonRun, Order, Orders, RigNeed, RunContext};
use crate::recovery::without_own_files;
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
pub(super) enum LoopEnd {
    /// Nothing is left to do in this process.
    Over(RunResult),
    /// A codon that has ended runs again, in a new run.
    Again(BeginAt, Reply, Choice),
    /// A new run begins at an earlier point.
    RollBack(Reply, RollbackTarget, bool),
}

/// A codon that was chosen by a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) codon_id: CodonId,
    pub(super) skip_rig: bool,
}

/// What can happen next.
enum Next {
    /// A codon that was chosen by a command.
    Chosen(Box<PlanEntry>, RigNeed),
    /// A codon, and the rig that is set up for it already.
    Codon(Box<PlanEntry>, Option<CheckpointSha>),
    /// A codon that somebody has to approve, and what they are asked.
    Asked(Box<PlanEntry>, String),
    /// Another try, and the rig that is set up for it already.
    Try(Retry, Option<CheckpointSha>),
    /// Nothing, because this codon failed.
    Blocked(CodonId),
    /// Nothing, because the plan has ended.
    Nothing,
}

/// Runs codons, the chosen one first, until nothing is left, something fails, the run is asked to stop, or a
/// command asks for another run. `ended` is the time when the newest codon of the run ended.
pub(super) async fn run_codons(
    context: &RunContext,
    heartbeat: &Heartbeat<'_>,
    inbox: &mut Inbox,
    go: &mut Autostart,
    mut chosen: Option<Choice>,
    ended: &mut Option<Instant>,
) -> Result<LoopEnd, RunError> {
    // The newest codon, when its checkpoint could not be written.
    let mut unsaved = None;
    // The codon that a command has just approved, which starts it.
    let mut approved = None;
    loop {
        if let Some(cause) = context.shutdown.cause() {
            return Ok(LoopEnd::Over(RunResult::Stopped(cause)));
        }
        if let Some(failure) = context.failure() {
            return Err(TransitionError::NotDurable(failure).into());
        }
        let state = context.manager.snapshot();
        let thread = thread::build(&state, None, None);
        let next = match chosen.take() {
            Some(choice) => choose(&state, choice)?,
            None => match decided(context, &state, &thread)? {
                Decided::Next(next) => next,
                Decided::Over(RunResult::Failed(id)) if unsaved.as_ref() == Some(&id) => {
                    return Ok(LoopEnd::Over(RunResult::Unsaved(id)));
                }
                Decided::Over(result) => return Ok(LoopEnd::Over(result)),
                Decided::Replan(plan) => {
                    context.manager.replace_plan(plan).await.await?;
                    continue;
                }
            },
        };
        let turn = match (&next, *go) {
            (Next::Codon(entry, _), _) if approved.take().as_ref() == Some(&entry.codon_id) => Turn::Run,
            (Next::Chosen(..), _) | (Next::Codon(..), Autostart::On) => Turn::Run,
            (Next::Asked(..), _) => {
                idle(
                    context,
                    inbox,
                    &state,
                    &thread,
                    &next,
                    IdleReason::ApprovalRequired,
                )
                .await
            }
            (Next::Try(retry, _), Autostart::On) => {
                wait_for_retry(context, heartbeat, inbox, &state, retry, *ended).await
            }
            (Next::Codon(..) | Next::Try(..), Autostart::Wait(reason)) => {
                idle(context, inbox, &state, &thread, &next, reason).await
            }
            (Next::Blocked(_), go) => {
                let reason = go.reason_or(IdleReason::CodonCompleted);
                idle(context, inbox, &state, &thread, &next, reason).await
            }
            (Next::Nothing, go) => {
                let reason = go.reason_or(IdleReason::AllCodonsCompleted);
                idle(context, inbox, &state, &thread, &next, reason).await
            }
        };
        match turn {
            Turn::Run => {}
            Turn::Decide => continue,
            Turn::Approved(id) => {
                approved = Some(id);
                continue;
            }
            Turn::Choose(choice) => {
                chosen = Some(choice);
                continue;
            }
            Turn::Pause => {
                *go = Autostart::Wait(IdleReason::CodonCompleted);
                continue;
            }
            Turn::Leave(end) => return Ok(end),
        }
        let (entry, rig) = match next {
            Next::Chosen(entry, rig) => (entry, rig),
            Next::Codon(entry, rig) => (entry, rig.into()),
            Next::Try(retry, rig) => (retry.entry, rig.into()),
            Next::Asked(..) | Next::Blocked(_) | Next::Nothing => continue,
        };
        let up = context.world.clock.uptime();
        heartbeat
            .tell(up.map(|up| Activity::codon(&entry.codon_id, up)))
            .await;
        let ran = run_codon(context, inbox, &state, &thread, &entry, rig).await?;
        *ended = Some(Instant::now());
        unsaved = matches!(ran, Ran::Unsaved).then(|| entry.codon_id.clone());
        let forced = match ran {
            Ran::Unpublished(_) if context.shutdown.cause().is_some() => continue,
            Ran::Unpublished(why) => {
                return Ok(LoopEnd::Over(RunResult::OutputFailed(entry.codon_id, why)));
            }
            Ran::Forced if !context.is_attended() => {
                return Ok(LoopEnd::Over(RunResult::Failed(entry.codon_id)));
            }
            Ran::Paused(by, why) => {
                if let Some(cause) = context.shutdown.cause() {
                    return Ok(LoopEnd::Over(RunResult::Stopped(cause)));
                }
                return Ok(LoopEnd::Over(RunResult::Paused(pause(
                    context,
                    entry.codon_id,
                    by,
                    why,
                ))));
            }
            Ran::Forced => true,
            Ran::Unsaved | Ran::ToTheEnd => false,
        };
        if forced || !context.options.autostart {
            *go = Autostart::Wait(IdleReason::CodonCompleted);
        }
    }
}

/// The pause of the run at this codon.
fn pause(context: &RunContext, codon: CodonId, by: InterruptedBy, why: String) -> Pause {
    let lived = context.begun.elapsed();
    let whole = CeilingUse::of(lived, context.ceiling(), &context.manager.snapshot());
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

/// What is decided from the records.
enum Decided {
    Next(Next),
    /// The plan is another one now.
    Replan(Vec<PlanEntry>),
    /// Nothing is left to do in this process.
    Over(RunResult),
}

fn decided(
    context: &RunContext,
    state: &HankweaveState,
    thread: &ExecutionThread,
) -> Result<Decided, RunError> {
    Ok(match decide(state, thread, &context.hank) {
        Decision::Replan(plan) => Decided::Replan(plan),
        Decision::Start(entry) => {
            let rig = context.rig.clone().filter(|_| is_first_of_run(state));
            Decided::Next(Next::Codon(entry, rig))
        }
        Decision::Ask(entry) => {
            let question = approval::question(context, &entry);
            match approval::can_be_asked(context) {
                true => Decided::Next(Next::Asked(entry, question)),
                false => Decided::Over(approval::pause(entry.codon_id, question)),
            }
        }
        Decision::Blocked(BlockedBy::Denied(id)) => Decided::Over(approval::denied(state, id)),
        Decision::Retry(retry) => Decided::Next(Next::Try(retry, finished_rig(context, thread))),
        Decision::Done if context.options.autostart => Decided::Over(RunResult::Completed),
        Decision::Done => Decided::Next(Next::Nothing),
        Decision::Blocked(BlockedBy::FailedCodon(id)) if waits_for_user(context, thread) => {
            Decided::Next(Next::Blocked(id))
        }
        Decision::Blocked(BlockedBy::FailedCodon(id)) => Decided::Over(RunResult::Failed(id)),
        Decision::Blocked(BlockedBy::ChangedHank(error)) => return Err(RunError::ChangedHank(error)),
        Decision::Blocked(BlockedBy::MissingParent) => return Err(RunError::MissingParent),
        // Only this loop starts codons, and each has ended before the next decision.
        Decision::Wait => return Err(RunError::CodonLeftOpen),
    })
}

/// The entry of the plan that was chosen.
fn choose(state: &HankweaveState, choice: Choice) -> Result<Next, RunError> {
    let rig = match choice.skip_rig {
        true => RigNeed::LeftOut,
        false => RigNeed::SetUp,
    };
    match planned(state, &choice.codon_id) {
        Some(entry) => Ok(Next::Chosen(Box::new(entry.clone()), rig)),
        None => Err(RunError::ChangedHank(ExpandError::UnknownCodon(choice.codon_id))),
    }
}

fn planned<'s>(state: &'s HankweaveState, id: &CodonId) -> Option<&'s PlanEntry> {
    state.execution_plan.iter().find(|entry| entry.codon_id == *id)
}

/// What follows a wait.
enum Turn {
    /// Run what is next.
    Run,
    /// Something may have changed: decide again.
    Decide,
    /// Run this codon, unless something has changed.
    Approved(CodonId),
    /// Run this codon.
    Choose(Choice),
    /// Start nothing before a command does.
    Pause,
    /// Leave the loop.
    Leave(LoopEnd),
}

/// A retriable failure keeps an attended run alive (HANK-41).
fn waits_for_user(context: &RunContext, thread: &ExecutionThread) -> bool {
    let newest = thread.codons.first().map(|entry| entry.codon.as_ref());
    let retriable = newest.is_some_and(
        |codon| matches!(codon, CodonExecution::Failed(failed) if failed.failure_reason.retriable),
    );
    context.is_attended() && retriable
}

/// Waits for a command.
async fn idle(
    context: &RunContext,
    inbox: &mut Inbox,
    state: &HankweaveState,
    thread: &ExecutionThread,
    next: &Next,
    reason: IdleReason,
) -> Turn {
    let message = match next {
        Next::Chosen(entry, _) | Next::Codon(entry, _) => format!("{} is next", entry.codon_id),
        Next::Asked(entry, question) => format!("{} waits for an approval: {question}", entry.codon_id),
        Next::Try(retry, _) => format!("{} can be tried again", retry.entry.codon_id),
        Next::Blocked(id) => format!("{id} failed; it can be run again"),
        Next::Nothing => "every codon of the plan has ended".to_owned(),
    };
    context.publish(Event::ServerIdle { reason, message }).await;
    // After a failure, and for an answer, the run only waits while a user may send a command.
    let may_be_left = match next {
        Next::Blocked(_) => !context.options.attended && context.options.autostart,
        Next::Asked(..) => !approval::is_attended(context),
        _ => false,
    };
    loop {
        // Every arm is cancel safe: all of them only wait. What ends the run comes before commands.
        let Request { command, reply } = tokio::select! {
            biased;
            () = context.shutdown.requested() => return Turn::Decide,
            () = context.degraded() => return Turn::Decide,
            request = inbox.next() => request,
            () = context.presence.deserted(), if may_be_left => return Turn::Decide,
        };
        match command {
            Command::Next => match next {
                Next::Chosen(entry, _) | Next::Codon(entry, _) => {
                    answer(reply, Ok(Accepted::Starting(entry.codon_id.clone())));
                    return Turn::Run;
                }
                Next::Asked(entry, _) => {
                    answer(reply, Err(Refusal::ApprovalRequired(entry.codon_id.clone())));
                }
                Next::Try(retry, _) => {
                    answer(reply, Ok(Accepted::Starting(retry.entry.codon_id.clone())));
                    return Turn::Run;
                }
                Next::Blocked(id) => answer(reply, Err(Refusal::Blocked(id.clone()))),
                Next::Nothing => answer(reply, Err(Refusal::NothingNext)),
            },
            Command::Answer {
                codon_id,
                granted,
                reason,
            } => {
                let asked = match next {
                    Next::Asked(entry, _) => Some(&entry.codon_id),
                    _ => None,
                };
                let Some(id) = asked.filter(|id| codon_id.as_ref().is_none_or(|wanted| wanted == *id)) else {
                    answer(reply, Err(Refusal::NotAsked(codon_id)));
                    continue;
                };
                match approval::record(&context.manager, id, granted, reason).await {
                    Err(error) => answer(reply, Err(Refusal::NotRecorded(error))),
                    Ok(()) if granted => {
                        answer(reply, Ok(Accepted::Starting(id.clone())));
                        return Turn::Approved(id.clone());
                    }
                    Ok(()) => {
                        answer(reply, Ok(Accepted::Denied(id.clone())));
                        return Turn::Decide;
                    }
                }
            }
            Command::Redo => match thread.codons.first() {
                Some(newest) => {
                    let codon_id = newest.codon.codon_id().clone();
                    let skip_rig = false;
                    return Turn::Leave(LoopEnd::Again(
                        BeginAt::Again,
                        reply,
                        Choice { codon_id, skip_rig },
                    ));
                }
                None => answer(reply, Err(Refusal::NothingToRedo)),
            },
            Command::Start { codon_id, skip_rig } => {
                if let Some(turn) = take(state, Choice { codon_id, skip_rig }, reply) {
                    return turn;
                }
            }
            Command::RollBack { target, restart } => {
                return Turn::Leave(LoopEnd::RollBack(reply, target, restart));
            }
            Command::Skip | Command::ForceStop { .. } => answer(reply, Err(Refusal::NothingRunning)),
        }
    }
}

/// Accepts a codon that was chosen by a command, or refuses it (WIRE-12).
fn take(state: &HankweaveState, choice: Choice, reply: Reply) -> Option<Turn> {
    let id = &choice.codon_id;
    if planned(state, id).is_none() {
        answer(reply, Err(Refusal::UnknownCodon(choice.codon_id)));
        return None;
    }
    let newest_run = state.runs.front();
    let has_ended = newest_run.is_some_and(|run| run.codons.iter().any(|codon| codon.codon_id() == id));
    if has_ended {
        return Some(Turn::Leave(LoopEnd::Again(BeginAt::Anew, reply, choice)));
    }
    answer(reply, Ok(Accepted::Starting(id.clone())));
    Some(Turn::Choose(choice))
}

/// Waits until another try is due.
async fn wait_for_retry(
    context: &RunContext,
    heartbeat: &Heartbeat<'_>,
    inbox: &mut Inbox,
    state: &HankweaveState,
    retry: &Retry,
    failed: Option<Instant>,
) -> Turn {
    let id = &retry.entry.codon_id;
    let mut wait = match Wait::begin(context, retry, failed) {
        Ok(wait) => wait,
        Err(TooLong { why, needed }) => {
            return Turn::Leave(LoopEnd::Over(RunResult::Paused(Pause {
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
        .tell(up.map(|up| Activity::wait(id, up + wait.left())))
        .await;
    context
        .publish(Event::Info {
            message: wait.words(),
        })
        .await;
    context.publish(wait.event()).await;
    loop {
        // Every arm is cancel safe: all of them only wait. What ends the run comes before commands.
        let Request { command, reply } = tokio::select! {
            biased;
            () = context.shutdown.requested() => return Turn::Decide,
            () = context.degraded() => return Turn::Decide,
            request = inbox.next() => request,
            over = wait.go_on() => match over {
                true => return Turn::Run,
                false => {
                    context.publish(Event::Info { message: wait.words() }).await;
                    continue;
                }
            },
        };
        match command {
            Command::Next | Command::Redo => {
                answer(reply, Ok(Accepted::Starting(id.clone())));
                return Turn::Run;
            }
            Command::Start { codon_id, skip_rig } => {
                if let Some(turn) = take(state, Choice { codon_id, skip_rig }, reply) {
                    return turn;
                }
            }
            Command::ForceStop { .. } if context.is_attended() => {
                answer(reply, Ok(Accepted::Stopping(id.clone())));
                return Turn::Pause;
            }
            Command::ForceStop { .. } => {
                answer(reply, Ok(Accepted::Stopping(id.clone())));
                return Turn::Leave(LoopEnd::Over(RunResult::Failed(id.clone())));
            }
            Command::RollBack { target, restart } => {
                return Turn::Leave(LoopEnd::RollBack(reply, target, restart));
            }
            Command::Answer { codon_id, .. } => answer(reply, Err(Refusal::NotAsked(codon_id))),
            Command::Skip => answer(reply, Err(Refusal::NothingRunning)),
        }
    }
}

fn is_first_of_run(state: &HankweaveState) -> bool {
    state.runs.front().is_none_or(|run| run.codons.is_empty())
}

/// The rig that the failed try of this run had set up, or an interrupted codon in the run before; another try
/// uses it (HANK-23).
fn finished_rig(context: &RunContext, thread: &ExecutionThread) -> Option<CheckpointSha> {
    let failed = thread
        .codons
        .first()
        .filter(|failed| failed.run_id == context.run_id || failed.codon.interruption().is_some())?;
    failed.codon.rig_setup_checkpoint().cloned()
}

/// The session to go on with. A run that was opened for a chosen codon does not continue the run before it,
/// but the sessions of that run still exist.
fn session(state: &HankweaveState, thread: &ExecutionThread, id: &CodonId) -> Option<SessionId> {
    let plan = &state.execution_plan;
    let before = || {
        let source = state.runs.front()?.starting_conditions.source()?;
        let is_cut = source.after_codon.is_none();
        is_cut.then(|| thread::build(state, Some(&source.run_id), None))
    };
    let own = thread.continuation_session(plan, id).cloned();
    own.or_else(|| before()?.continuation_session(plan, id).cloned())
}

/// The session of a codon that met the usage limit of its provider, in which it goes on.
fn limited_session<'t>(thread: &'t ExecutionThread, id: &CodonId) -> Option<&'t SessionId> {
    let newest = thread.codons.first()?.codon.codon_id();
    let was_limited = thread.interruption() == Some(InterruptedBy::UsageLimit);
    thread.own_session().filter(|_| was_limited && newest == id)
}

/// The session, unless its transcript stayed on another machine (RUN-27): then the agent begins a new one, and somebody is told.
async fn reachable(context: &RunContext, id: &CodonId, session: Option<SessionId>) -> Option<SessionId> {
    let session = session?;
    let (disk, dir, wanted) = (context.world.disk.clone(), context.dir.clone(), session.clone());
    let looked = move || arrival::is_elsewhere(&*disk, &dir, &wanted);
    if !context.world.blocking.run(looked).await {
        return Some(session);
    }
    let message = format!("{id}: session {session} stayed on another machine; its agent begins a new one");
    context.publish(Event::Info { message }).await;
    None
}

/// Runs one codon to its end and passes orders to it, then copies its results to the output directory.
async fn run_codon(
    context: &RunContext,
    inbox: &mut Inbox,
    state: &HankweaveState,
    thread: &ExecutionThread,
    entry: &PlanEntry,
    rig: RigNeed,
) -> Result<Ran, RunError> {
    let id = &entry.codon_id;
    let unknown = || RunError::ChangedHank(ExpandError::UnknownCodon(id.clone()));
    let config = context.hank.codon(id.configured()).ok_or_else(unknown)?;
    let orders = Orders::new(&context.shutdown);
    let own_session = thread::resumed_session(state, id).or_else(|| limited_session(thread, id));
    let lived = context.begun.elapsed();
    let mut limits = budget::limits(&context.hank, context.ceiling(), state, entry, lived);
    if let Some(session) = own_session {
        limits = limits.going_on(thread, id, session);
    }
    if let Some(exceeded) = Meter::new(limits).exceeded(Duration::ZERO)
        && limits.consequence(&exceeded) == OnExceeded::Pause
    {
        // A codon with no budget left is not opened: it begins when the budget is raised (HANK-40).
        let why = codon::why_paused(&limits, exceeded);
        return Ok(Ran::Paused(InterruptedBy::Ceiling, why));
    }
    let in_own_session = own_session.is_some();
    let wanted = own_session.cloned().or_else(|| session(state, thread, id));
    let reached = reachable(context, id, wanted.clone()).await;
    let session_is_elsewhere = wanted.is_some() && reached.is_none();
    let codon = CodonRun {
        cost_is_lower_bound: AtomicBool::new(false),
        watchers: Mutex::default(),
        run: context,
        entry,
        config,
        in_own_session: in_own_session && !session_is_elsewhere,
        session: reached,
        session_is_elsewhere,
        patterns: without_own_files(checkpoint_patterns(&state.execution_plan, id), &context.own_files),
        rig,
        limits,
        begun: Instant::now(),
        orders: orders.clone(),
    };
    let aftermath = Aftermath::new(context, entry, config, orders.clone());
    aftermath.announce().await;
    let (walked, unsaved, published) = {
        let work = async {
            let end = codon::execute(&codon).await?;
            let unsaved = matches!(end, CodonEnd::Unsaved(_));
            let walked = end.into_execution();
            publish_snapshot(context).await;
            let published = aftermath.run(&walked).await;
            Ok::<_, RunError>((walked, unsaved, published))
        };
        tokio::pin!(work);
        loop {
            // Both arms are cancel safe: the work is only borrowed, and a receive that is dropped loses
            // nothing. A command that arrives with the end is about what comes after it.
            tokio::select! {
                biased;
                end = &mut work => break end?,
                request = inbox.next() => order(context, request, &orders, id),
            }
        }
    };
    debug_assert!(
        thread::build(&context.manager.snapshot(), None, None)
            .codons
            .first()
            .is_some_and(|newest| has_notes(&newest.codon)
                || *newest.codon == walked.clone().measured_like(&newest.codon)),
        "the typed codon and the recorded one have parted"
    );
    Ok(match published {
        Err(why) => Ran::Unpublished(why),
        Ok(()) if orders.was_forced() => Ran::Forced,
        Ok(()) if unsaved => Ran::Unsaved,
        Ok(()) if walked.interruption() == Some(InterruptedBy::Ceiling) => paused(&walked),
        Ok(()) => Ran::ToTheEnd,
    })
}

/// Whether the record has facts that the typed codon does not know.
fn has_notes(codon: &CodonExecution) -> bool {
    codon.budget_exceeded().is_some()
        || codon.context_exceeded()
        || codon.cost_is_lower_bound()
        || codon.loop_check().is_some()
}

/// The end of a codon with which the run pauses.
fn paused(walked: &CodonExecution) -> Ran {
    let reason = walked.failure_reason().and_then(|reason| reason.message.clone());
    let by = walked.interruption().unwrap_or(InterruptedBy::Stop);
    Ran::Paused(by, reason.unwrap_or_default())
}

/// A snapshot follows every end of a codon (WIRE-16).
async fn publish_snapshot(context: &RunContext) {
    let state = context.manager.snapshot();
    let thread = thread::build(&state, None, None);
    let snapshot = Event::state_snapshot(&state, &thread, context.watch.tree().await);
    context.publish(snapshot).await;
}

/// How a codon went, as far as the loop needs to know.
enum Ran {
    /// As its record says.
    ToTheEnd,
    /// The run pauses with it or before it, for this reason.
    Paused(InterruptedBy, String),
    /// It was stopped by force.
    Forced,
    /// What it needs could not be written.
    Unsaved,
    /// It completed, and its results were not copied to the output directory.
    Unpublished(Unpublished),
}

/// Carries out or refuses a command while a codon runs.
fn order(context: &RunContext, request: Request, orders: &Orders, id: &CodonId) {
    let running = |what| {
        Err(Refusal::CodonRunning {
            what,
            codon: id.clone(),
        })
    };
    let result = match request.command {
        _ if context.shutdown.cause().is_some() => Err(Refusal::Stopping),
        Command::Next => running("start the next codon"),
        Command::Redo => running("redo"),
        Command::Start { .. } => running("start another codon"),
        Command::Answer { codon_id, .. } => Err(Refusal::NotAsked(codon_id)),
        Command::RollBack { .. } => running("roll back"),
        Command::Skip => {
            orders.give(Order::Skip);
            Ok(Accepted::Stopping(id.clone()))
        }
        Command::ForceStop { reason } => {
            orders.give(Order::ForceStop(reason));
            Ok(Accepted::Stopping(id.clone()))
        }
    };
    answer(request.reply, result);
}
