//! The loop over decisions and commands.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use hankweave_core::agent::InterruptedBy;
use hankweave_core::budget::{self, Ceiling, Meter, Whole};
use hankweave_core::codon::CodonExecution;
use hankweave_core::document::{HankweaveState, PlanEntry};
use hankweave_core::hank::OnExceeded;
use hankweave_core::id::{CheckpointSha, CodonId, SessionId};
use hankweave_core::plan::{BlockedBy, Decision, ExpandError, Retry, checkpoint_patterns, decide};
use hankweave_core::thread::{self, ExecutionThread};
use hankweave_core::wire::{Event, IdleReason};
use tokio::time::Instant;

use super::aftermath::{Aftermath, Unpublished};
use super::begin::How;
use super::command::{Accepted, Command, Inbox, Refusal, Reply, Request, answer};
use super::outcome::{Pause, RunResult};
use super::rollback::RollbackTarget;
use super::run::RunError;
use super::wait::Wait;
use crate::codon::{self, CodonEnd, CodonRun, Order, Orders, RigNeed, RunContext};
use crate::recovery::without_own_files;
use crate::state_manager::TransitionError;

/// Whether codons start by themselves (RUN-9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Go {
    /// All of them do.
    On,
    /// None does before somebody says so.
    Wait(IdleReason),
}

impl Go {
    /// Why nothing starts where nothing is left that could: a rollback is what led there, as long as no codon has run since.
    fn reason_or(self, otherwise: IdleReason) -> IdleReason {
        match self {
            Self::Wait(reason @ IdleReason::RollbackCompleted) => reason,
            Self::On | Self::Wait(_) => otherwise,
        }
    }
}

/// How the walk of one run ends.
pub(super) enum WalkEnd {
    /// There is nothing left to do in this process.
    Over(RunResult),
    /// A codon that has ended runs again, in a new run.
    Again(How, Reply, Choice),
    /// A new run begins at an earlier point.
    RollBack(Reply, RollbackTarget, bool),
}

/// A codon that somebody chose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) codon_id: CodonId,
    pub(super) skip_rig: bool,
}

/// What can happen next.
enum Next {
    /// A codon that somebody chose.
    Chosen(Box<PlanEntry>, RigNeed),
    /// A codon, and the rig that is set up for it already.
    Codon(Box<PlanEntry>, Option<CheckpointSha>),
    /// Another try, and the rig that is set up for it already.
    Try(Retry, Option<CheckpointSha>),
    /// Nothing, because this codon failed.
    Blocked(CodonId),
    /// Nothing, because the plan has ended.
    Nothing,
}

/// Runs codons, the chosen one first, until nothing is left, something fails, the run is asked to stop, or a command asks for another run. When the
/// newest codon of the run has ended is in `ended`.
pub(super) async fn walk(
    context: &RunContext,
    inbox: &mut Inbox,
    go: &mut Go,
    mut chosen: Option<Choice>,
    ended: &mut Option<Instant>,
) -> Result<WalkEnd, RunError> {
    // The newest codon, when the disk did not take its checkpoint.
    let mut unsaved = None;
    loop {
        if let Some(cause) = context.shutdown.cause() {
            return Ok(WalkEnd::Over(RunResult::Stopped(cause)));
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
                    return Ok(WalkEnd::Over(RunResult::Unsaved(id)));
                }
                Decided::Over(result) => return Ok(WalkEnd::Over(result)),
                Decided::Replan(plan) => {
                    context.manager.replace_plan(plan).await.await?;
                    continue;
                }
            },
        };
        let turn = match (&next, *go) {
            (Next::Chosen(..), _) | (Next::Codon(..), Go::On) => Turn::Run,
            (Next::Try(retry, _), Go::On) => be_patient(context, inbox, &state, retry, *ended).await,
            (Next::Codon(..) | Next::Try(..), Go::Wait(reason)) => {
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
            Turn::Ask => continue,
            Turn::Choose(choice) => {
                chosen = Some(choice);
                continue;
            }
            Turn::Pause => {
                *go = Go::Wait(IdleReason::CodonCompleted);
                continue;
            }
            Turn::Leave(end) => return Ok(end),
        }
        let (entry, rig) = match next {
            Next::Chosen(entry, rig) => (entry, rig),
            Next::Codon(entry, rig) => (entry, rig.into()),
            Next::Try(retry, rig) => (retry.entry, rig.into()),
            Next::Blocked(_) | Next::Nothing => continue,
        };
        let ran = run_codon(context, inbox, &state, &thread, &entry, rig).await?;
        *ended = Some(Instant::now());
        unsaved = matches!(ran, Ran::Unsaved).then(|| entry.codon_id.clone());
        let forced = match ran {
            Ran::Unpublished(_) if context.shutdown.cause().is_some() => continue,
            Ran::Unpublished(why) => {
                return Ok(WalkEnd::Over(RunResult::OutputFailed(entry.codon_id, why)));
            }
            Ran::Forced if !is_attended(context) => {
                return Ok(WalkEnd::Over(RunResult::Failed(entry.codon_id)));
            }
            Ran::Paused(by, why) => {
                if let Some(cause) = context.shutdown.cause() {
                    return Ok(WalkEnd::Over(RunResult::Stopped(cause)));
                }
                return Ok(WalkEnd::Over(RunResult::Paused(pause(
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
            *go = Go::Wait(IdleReason::CodonCompleted);
        }
    }
}

/// The pause of the run at this codon.
fn pause(context: &RunContext, codon: CodonId, by: InterruptedBy, why: String) -> Pause {
    let lived = context.begun.elapsed();
    let whole = Whole::of(lived, context.ceiling(), &context.manager.snapshot());
    let more = whole.more();
    let why = match more == Ceiling::default() {
        true => why,
        false => format!("{why}: {whole}"),
    };
    Pause { codon, by, why, more }
}

/// What the records say about the next step.
enum Decided {
    Next(Next),
    /// The plan is another one now.
    Replan(Vec<PlanEntry>),
    /// There is nothing left to do in this process.
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
        Decision::Retry(retry) => Decided::Next(Next::Try(retry, finished_rig(context, thread))),
        Decision::Done if context.options.autostart => Decided::Over(RunResult::Completed),
        Decision::Done => Decided::Next(Next::Nothing),
        Decision::Blocked(BlockedBy::FailedCodon(id)) if waits_for_people(context, thread) => {
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
    /// What is next is done.
    Run,
    /// The world may have changed: the decision is made anew.
    Ask,
    /// This codon is done.
    Choose(Choice),
    /// Nothing starts before somebody says so.
    Pause,
    /// Another run begins.
    Leave(WalkEnd),
}

/// Whether somebody may come and say what is to be done.
fn is_attended(context: &RunContext) -> bool {
    context.options.attended || !context.options.autostart || context.attendance.is_anybody_there()
}

/// A failure that another try could mend keeps an attended run alive (HANK-41).
fn waits_for_people(context: &RunContext, thread: &ExecutionThread) -> bool {
    let newest = thread.codons.first().map(|entry| entry.codon.as_ref());
    let retriable = newest.is_some_and(
        |codon| matches!(codon, CodonExecution::Failed(failed) if failed.failure_reason.retriable),
    );
    is_attended(context) && retriable
}

/// Waits until somebody says what is to be done.
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
        Next::Try(retry, _) => format!("{} can be tried again", retry.entry.codon_id),
        Next::Blocked(id) => format!("{id} failed; it can be run again"),
        Next::Nothing => "every codon of the plan has ended".to_owned(),
    };
    context.tell(Event::ServerIdle { reason, message }).await;
    // A failure keeps the run alive only as long as somebody may come and say what is to be done.
    let may_be_left =
        matches!(next, Next::Blocked(_)) && !context.options.attended && context.options.autostart;
    loop {
        // Every arm is cancel safe: all of them only wait. What ends the run comes before what a person wants of it.
        let Request { command, reply } = tokio::select! {
            biased;
            () = context.shutdown.requested() => return Turn::Ask,
            () = context.degraded() => return Turn::Ask,
            request = inbox.next() => request,
            () = context.attendance.deserted(), if may_be_left => return Turn::Ask,
        };
        match command {
            Command::Next => match next {
                Next::Chosen(entry, _) | Next::Codon(entry, _) => {
                    answer(reply, Ok(Accepted::Starting(entry.codon_id.clone())));
                    return Turn::Run;
                }
                Next::Try(retry, _) => {
                    answer(reply, Ok(Accepted::Starting(retry.entry.codon_id.clone())));
                    return Turn::Run;
                }
                Next::Blocked(id) => answer(reply, Err(Refusal::Blocked(id.clone()))),
                Next::Nothing => answer(reply, Err(Refusal::NothingNext)),
            },
            Command::Redo => match thread.codons.first() {
                Some(newest) => {
                    let codon_id = newest.codon.codon_id().clone();
                    let skip_rig = false;
                    return Turn::Leave(WalkEnd::Again(How::Again, reply, Choice { codon_id, skip_rig }));
                }
                None => answer(reply, Err(Refusal::NothingToRedo)),
            },
            Command::Start { codon_id, skip_rig } => {
                if let Some(turn) = take(state, Choice { codon_id, skip_rig }, reply) {
                    return turn;
                }
            }
            Command::RollBack { target, restart } => {
                return Turn::Leave(WalkEnd::RollBack(reply, target, restart));
            }
            Command::Skip | Command::ForceStop { .. } => answer(reply, Err(Refusal::NothingRunning)),
        }
    }
}

/// Takes up a codon that somebody chose, or refuses it (WIRE-12).
fn take(state: &HankweaveState, choice: Choice, reply: Reply) -> Option<Turn> {
    let id = &choice.codon_id;
    if planned(state, id).is_none() {
        answer(reply, Err(Refusal::UnknownCodon(choice.codon_id)));
        return None;
    }
    let newest_run = state.runs.front();
    let has_ended = newest_run.is_some_and(|run| run.codons.iter().any(|codon| codon.codon_id() == id));
    if has_ended {
        return Some(Turn::Leave(WalkEnd::Again(How::Anew, reply, choice)));
    }
    answer(reply, Ok(Accepted::Starting(id.clone())));
    Some(Turn::Choose(choice))
}

/// Waits until another try is due.
async fn be_patient(
    context: &RunContext,
    inbox: &mut Inbox,
    state: &HankweaveState,
    retry: &Retry,
    failed: Option<Instant>,
) -> Turn {
    let id = &retry.entry.codon_id;
    let mut wait = match Wait::begin(context, retry, failed) {
        Ok(wait) => wait,
        Err(why) => {
            return Turn::Leave(WalkEnd::Over(RunResult::Paused(Pause {
                codon: id.clone(),
                by: InterruptedBy::UsageLimit,
                why,
                more: Ceiling::default(),
            })));
        }
    };
    context
        .tell(Event::Info {
            message: wait.words(),
        })
        .await;
    loop {
        // Every arm is cancel safe: all of them only wait. What ends the run comes before what a person wants of it.
        let Request { command, reply } = tokio::select! {
            biased;
            () = context.shutdown.requested() => return Turn::Ask,
            () = context.degraded() => return Turn::Ask,
            request = inbox.next() => request,
            over = wait.go_on() => match over {
                true => return Turn::Run,
                false => {
                    context.tell(Event::Info { message: wait.words() }).await;
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
            Command::ForceStop { .. } if is_attended(context) => {
                answer(reply, Ok(Accepted::Stopping(id.clone())));
                return Turn::Pause;
            }
            Command::ForceStop { .. } => {
                answer(reply, Ok(Accepted::Stopping(id.clone())));
                return Turn::Leave(WalkEnd::Over(RunResult::Failed(id.clone())));
            }
            Command::RollBack { target, restart } => {
                return Turn::Leave(WalkEnd::RollBack(reply, target, restart));
            }
            Command::Skip => answer(reply, Err(Refusal::NothingRunning)),
        }
    }
}

fn is_first_of_run(state: &HankweaveState) -> bool {
    state.runs.front().is_none_or(|run| run.codons.is_empty())
}

/// The rig that the failed try of this run had set up, or one that was interrupted in the run before; another try goes on with it (HANK-23).
fn finished_rig(context: &RunContext, thread: &ExecutionThread) -> Option<CheckpointSha> {
    let failed = thread
        .codons
        .first()
        .filter(|failed| failed.run_id == context.run_id || failed.codon.interruption().is_some())?;
    failed.codon.rig_setup_checkpoint().cloned()
}

/// The session to go on with. A run that was opened for a chosen codon has no part in the run before it, but its conversations are still there.
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

/// The session of a codon that met the usage limit of its provider: it goes on in there.
fn limited_session<'t>(thread: &'t ExecutionThread, id: &CodonId) -> Option<&'t SessionId> {
    let newest = thread.codons.first()?.codon.codon_id();
    let was_limited = thread.interruption() == Some(InterruptedBy::UsageLimit);
    thread.own_session().filter(|_| was_limited && newest == id)
}

/// Runs one codon to its end, hands its results out, and hands orders on to it.
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
        // A codon for which nothing is left is not opened: it begins when there is more (HANK-40).
        let why = codon::why_paused(&limits, exceeded);
        return Ok(Ran::Paused(InterruptedBy::Ceiling, why));
    }
    let own_session = own_session.cloned();
    let codon = CodonRun {
        cost_is_lower_bound: AtomicBool::new(false),
        run: context,
        entry,
        config,
        in_own_session: own_session.is_some(),
        session: own_session.or_else(|| session(state, thread, id)),
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
            tell_snapshot(context).await;
            let published = aftermath.run(&walked).await;
            Ok::<_, RunError>((walked, unsaved, published))
        };
        tokio::pin!(work);
        loop {
            // Both arms are cancel safe: the work is only borrowed, and a receive that is dropped loses nothing. A command that arrives
            // with the end is about what comes after it.
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

/// Whether the record holds what the typed codon does not know.
fn has_notes(codon: &CodonExecution) -> bool {
    codon.budget_exceeded().is_some() || codon.context_exceeded() || codon.cost_is_lower_bound()
}

/// The end of a codon with which the run pauses.
fn paused(walked: &CodonExecution) -> Ran {
    let reason = walked.failure_reason().and_then(|reason| reason.message.clone());
    let by = walked.interruption().unwrap_or(InterruptedBy::Stop);
    Ran::Paused(by, reason.unwrap_or_default())
}

/// A snapshot follows every end of a codon (WIRE-16).
async fn tell_snapshot(context: &RunContext) {
    let state = context.manager.snapshot();
    let thread = thread::build(&state, None, None);
    let snapshot = Event::state_snapshot(&state, &thread, context.watch.tree().await);
    context.tell(snapshot).await;
}

/// How a codon went, as far as the walk has to know.
enum Ran {
    /// Its record tells.
    ToTheEnd,
    /// The run pauses with it or before it, for this reason.
    Paused(InterruptedBy, String),
    /// It was stopped by force.
    Forced,
    /// The disk did not take what it needs.
    Unsaved,
    /// It completed, and its results were not handed out.
    Unpublished(Unpublished),
}

/// Obeys or refuses a command while a codon runs.
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
