//! A run from its first record to its last. [`run`] opens runs one after the other: a command may roll back or repeat a codon, which ends one
//! run and starts the next in the same process.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use hankweave_core::agent::InterruptedBy;
use hankweave_core::budget::{self, CeilingUse};
use hankweave_core::document::RunStatus;
use hankweave_core::event::StateEvent;
use hankweave_core::plan::{Decision, decide};
use hankweave_core::run::{Complete, Fail, Run, Running};
use hankweave_core::thread::ThreadTip;
use hankweave_core::view::goal_of_prompt;
use hankweave_core::wire::{Event, IdleReason, RunEnding};

use super::begin::{StartPoint, StartedRun, start};
use super::command::{AcceptedCommand, CommandReply, Inbox, Refusal, answer};
use super::error::RunError;
use super::finish;
use super::heartbeat::Heartbeat;
use super::outcome::{RunOutcome, RunResult};
use super::rollback;
use super::steps::{Autostart, ChosenCodon, RunLoopExit, run_codons};
use super::suspensions;
use crate::codon::{FileWatcher, RehearsedSteps, RunContext, prompt_of};
use crate::error::chain;
use crate::instance_lock::InstanceLock;
use crate::presence::ClientCount;
use crate::recovery::OpenedExecution;
use crate::shutdown::{Shutdown, StopCause};

/// How a run ends, and whether another one follows.
enum RunEnd {
    /// No other run follows in this process.
    Over(RunResult),
    /// Another run follows, in which this codon runs again.
    Again(StartPoint, CommandReply, ChosenCodon),
    /// Another run follows after a rollback, which is recorded; an interrupted restore is finished when that run starts. With
    /// `restart` the next codon may start by itself.
    RolledBack { restart: bool },
}

/// Parts of a run that come from the program that embeds it.
#[derive(Debug)]
pub(crate) struct RunDependencies {
    pub(crate) shutdown: Shutdown,
    pub(crate) presence: ClientCount,
    /// Address for clients, for the lock file.
    pub(crate) server: Option<SocketAddr>,
}

/// Runs one run, or several when commands ask for it, then waits for `last`, in which the caller closes its server, and
/// releases the directory.
pub(crate) async fn run(
    opened: OpenedExecution,
    lock: InstanceLock,
    mut inbox: Inbox,
    dependencies: RunDependencies,
    last: impl Future<Output = ()>,
) -> Result<RunOutcome, RunError> {
    let lock = Arc::new(lock);
    let RunDependencies {
        shutdown,
        presence,
        server,
    } = dependencies;
    let heartbeat = Heartbeat {
        lock: &lock,
        possession: &opened.possession,
        shutdown: &shutdown,
        server,
    };
    // The other futures run as long as the runs do, and never end by themselves. Cancelling them loses nothing.
    let result = tokio::select! {
        biased;
        result = run_all(&opened, &mut inbox, &heartbeat, &presence) => result,
        never = heartbeat.run() => match never {},
        never = suspensions::note(&heartbeat) => match never {},
    };
    // From now on commands are refused, because the run has ended.
    drop(inbox);
    let saved = opened.possession.release(lock, last).await;
    let outcome = result?;
    saved.map_err(RunError::Save)?;
    Ok(outcome)
}

/// Runs one run after the other, as long as commands ask for another one.
async fn run_all(
    opened: &OpenedExecution,
    inbox: &mut Inbox,
    heartbeat: &Heartbeat<'_>,
    presence: &ClientCount,
) -> Result<RunOutcome, RunError> {
    let (possession, shutdown) = (&opened.possession, heartbeat.shutdown);
    let configured_autostart = match opened.options.autostart {
        true => Autostart::On,
        false => Autostart::Wait(IdleReason::Startup),
    };
    let mut start_point = StartPoint::ByOptions;
    let (mut autostart, mut chosen) = (configured_autostart, None);
    if let Err((codon, why)) = finish::catch_up(opened, shutdown).await {
        let result = RunResult::OutputFailed(codon, why);
        let state = possession.manager.snapshot();
        let newest = state.runs.front().map(|run| &run.run_id);
        let done = decide(&state, &opened.hank) == Decision::Done;
        return Ok(RunOutcome::of(newest, result, (&state, &opened.hank), done));
    }
    loop {
        let Some(started) = start(opened, start_point, autostart == Autostart::On).await? else {
            let state = possession.manager.snapshot();
            return Ok(RunOutcome::of(
                None,
                RunResult::NothingToDo,
                (&state, &opened.hank),
                true,
            ));
        };
        heartbeat.refresh().await;
        let context = context(opened, &started, shutdown.clone(), presence.clone());
        // The description of the run for clients. Its goal comes from the hank, or else from the first prompt.
        let first_prompt = || prompt_of(&context, context.hank.codons().next()?);
        let description = Event::run_described(&context.hank, context.ceiling())
            .or_goal(|| goal_of_prompt(&first_prompt()?))
            .of_rehearsal(context.options.rehearsal);
        // With autostart and nothing left to do, a run only records a rollback to the end of the plan, such as an undo. It has no limits of its own:
        // the limits of the earlier work stay.
        let has_limits = autostart != Autostart::On || !is_done(&context);
        if has_limits {
            context.publish(description).await;
        }
        let end = run_until_end(opened, &context, heartbeat, inbox, &mut autostart, chosen.take()).await;
        heartbeat.lock.set_activity(None);
        close(&context, started.run, &end, has_limits).await?;
        match end? {
            RunEnd::Over(result) => {
                let state = possession.manager.snapshot();
                let known = (&*state, &context.hank);
                let result = match result {
                    RunResult::Completed if !has_limits => RunResult::NothingToDo,
                    result => result,
                };
                let outcome = RunOutcome::of(Some(&context.run_id), result, known, is_done(&context));
                let stop_reason = shutdown.reason().map(str::to_owned);
                let rehearsed = context.options.rehearsal.then(|| context.rehearsed.take());
                return Ok(RunOutcome {
                    budget: has_limits.then(|| CeilingUse::of(context.ceiling(), &state)),
                    stop_reason,
                    rehearsed,
                    ..outcome
                });
            }
            RunEnd::Again(from, reply, choice) => {
                answer(reply, Ok(AcceptedCommand::Starting(choice.codon_id.clone())));
                (start_point, chosen) = (from, Some(choice));
                autostart = configured_autostart;
            }
            RunEnd::RolledBack { restart } => {
                start_point = StartPoint::ByRecord;
                autostart = match (restart, configured_autostart) {
                    (true, Autostart::On) => Autostart::On,
                    _ => Autostart::Wait(IdleReason::RollbackCompleted),
                };
            }
        }
    }
}

/// Runs codons until the run has to end. A rollback restores files while the run is still open (RUN-19). A run whose
/// rollback fails before it changes files therefore continues.
async fn run_until_end(
    opened: &OpenedExecution,
    context: &RunContext,
    heartbeat: &Heartbeat<'_>,
    inbox: &mut Inbox,
    autostart: &mut Autostart,
    mut chosen: Option<ChosenCodon>,
) -> Result<RunEnd, RunError> {
    let possession = &opened.possession;
    let mut newest_end = None;
    loop {
        let exit = run_codons(
            context,
            heartbeat,
            inbox,
            autostart,
            chosen.take(),
            &mut newest_end,
        )
        .await?;
        let (reply, target, restart) = match exit {
            RunLoopExit::Over(result) => return Ok(RunEnd::Over(result)),
            RunLoopExit::Again(from, reply, choice) => return Ok(RunEnd::Again(from, reply, choice)),
            RunLoopExit::RollBack {
                reply,
                target,
                restart,
            } => (reply, target, restart),
        };
        let rollback = rollback::go_back(possession, &target);
        let rollback = inbox
            .refuse_during(|| Refusal::RollbackInProgress, rollback)
            .await;
        let restart = restart && rollback.is_ok();
        let result = rollback.map(|rollback| AcceptedCommand::RolledBack(Box::new(rollback)));
        answer(reply, result.map_err(Refusal::Rollback));
        // An interrupted rollback is on record too: the next run first finishes it.
        if possession.manager.snapshot().pending_rollback.is_some() {
            return Ok(RunEnd::RolledBack { restart });
        }
    }
}

fn context(
    opened: &OpenedExecution,
    started: &StartedRun,
    shutdown: Shutdown,
    presence: ClientCount,
) -> RunContext {
    let possession = &opened.possession;
    RunContext {
        world: possession.world.clone(),
        dir: possession.dir.clone(),
        loaded: opened.loaded.clone(),
        hank: opened.hank.clone(),
        drivers: opened.drivers.clone(),
        manager: possession.manager.clone(),
        checkpoints: possession.checkpoints.clone(),
        shutdown,
        watch: FileWatcher::default(),
        presence,
        options: opened.options.clone(),
        own_files: opened.own_files.clone(),
        run_id: started.run.run_id.clone(),
        tip: Mutex::new(started.base.clone()),
        left_out: Mutex::default(),
        rehearsed: RehearsedSteps::default(),
        rig: started.rig.clone(),
    }
}

/// Whether every codon of the plan has ended.
fn is_done(context: &RunContext) -> bool {
    next(context) == Decision::Done
}

fn next(context: &RunContext) -> Decision {
    let state = context.manager.snapshot();
    decide(&state, &context.hank)
}

/// Returns the cause of the run's interruption, if nothing failed and something is left to do.
fn interruption(context: &RunContext, end: &Result<RunEnd, RunError>) -> Option<InterruptedBy> {
    match end {
        Ok(RunEnd::Over(RunResult::Paused(pause))) => Some(pause.by),
        Ok(RunEnd::Over(RunResult::Stopped(_))) => match next(context) {
            Decision::Done | Decision::Blocked(_) => None,
            Decision::Start(_)
            | Decision::Ask(_)
            | Decision::Retry(_)
            | Decision::Extend(_)
            | Decision::Wait => Some(InterruptedBy::Stop),
        },
        Ok(_) | Err(_) => None,
    }
}

/// Returns the event of the run's end, as the end is recorded (WIRE-41).
fn run_ended(context: &RunContext, cause: Option<String>) -> Event {
    let state = context.manager.snapshot();
    let recorded = state.run(&context.run_id);
    let outcome = match recorded.map(|run| run.status) {
        Some(RunStatus::Completed) if cause.is_some() => RunEnding::Stopped,
        Some(RunStatus::Completed) => RunEnding::Completed,
        _ => RunEnding::of_failure(recorded.and_then(|run| run.interrupted_by)),
    };
    let run_id = context.run_id.clone();
    Event::RunEnded {
        run_id,
        outcome,
        cause,
    }
}

/// Returns the cause of the run's end for people; `None` if the run completed, or its end needs no explanation.
fn cause(context: &RunContext, end: &Result<RunEnd, RunError>) -> Option<String> {
    match end {
        Ok(RunEnd::Over(RunResult::Paused(pause))) => Some(format!("{}: {}", pause.codon, pause.why)),
        Ok(RunEnd::Over(RunResult::Failed(id))) => Some(format!("{id} failed")),
        Ok(RunEnd::Over(RunResult::Unsaved(id))) => Some(format!("{id}: its files could not be written")),
        Ok(RunEnd::Over(RunResult::OutputFailed(id, why))) => {
            Some(format!("{id}: its results could not be copied: {why}"))
        }
        Ok(RunEnd::Over(RunResult::Stopped(cause))) => {
            let reason = context.shutdown.reason().map(str::to_owned);
            let is_signal = !matches!(cause, StopCause::Request | StopCause::ForcedRequest);
            reason.or_else(|| is_signal.then(|| cause.as_str().to_owned()))
        }
        Ok(RunEnd::RolledBack { .. }) if !is_done(context) => Some("left by a rollback".to_owned()),
        Err(error) => Some(chain(error)),
        Ok(_) => None,
    }
}

/// Writes the last record of the run, however it ended. If the run `has_limits`, publishes the summary of its budget first.
async fn close(
    context: &RunContext,
    run: Run<Running>,
    end: &Result<RunEnd, RunError>,
    has_limits: bool,
) -> Result<(), RunError> {
    let end_time = context.world.clock.now();
    let (complete, fail) = (Complete { end_time }, Fail { end_time });
    let closing = match end {
        Ok(RunEnd::Over(RunResult::Completed | RunResult::NothingToDo)) => run.step(complete).into_event(),
        // Completed only when every codon of the plan has ended (RUN-15).
        Ok(RunEnd::Over(RunResult::Stopped(_))) if is_done(context) => run.step(complete).into_event(),
        Ok(RunEnd::Over(
            RunResult::Failed(_)
            | RunResult::Unsaved(_)
            | RunResult::OutputFailed(..)
            | RunResult::Stopped(_)
            | RunResult::Paused(_),
        ))
        | Err(RunError::ChangedHank(_) | RunError::MissingParent) => run.step(fail).into_event(),
        // Another run follows: this run ends as its newest codon did.
        Ok(RunEnd::Again(..) | RunEnd::RolledBack { .. }) => {
            let state = context.manager.snapshot();
            match ThreadTip::ending_in(&state, &context.run_id).failed() {
                true => run.step(fail).into_event(),
                false => run.step(complete).into_event(),
            }
        }
        // An event that could not be recorded before cannot be recorded now.
        Err(_) => return Ok(()),
    };
    // The summary comes before the end of the run (RUN-16).
    let state = context.manager.snapshot();
    let summary = has_limits.then(|| budget::summary(&context.hank, context.ceiling(), &state));
    if let Some(summary) = summary.flatten() {
        context.publish(summary.into()).await;
    }
    let mut closing = StateEvent::run_ended(context.run_id.clone(), &closing, None);
    let has_cause =
        matches!(closing, StateEvent::RunFailed { .. }) || matches!(end, Ok(RunEnd::RolledBack { .. }));
    let cause = cause(context, end).filter(|_| has_cause);
    closing = closing.with_cause(cause.clone());
    if let Some(by) = interruption(context, end) {
        closing = closing.with_interruption(by);
    }
    context.manager.transition(closing).await.await?;
    context.publish(run_ended(context, cause)).await;
    if let Ok(RunEnd::Over(RunResult::Completed)) = end {
        let message = "every codon of the plan has ended".to_owned();
        context
            .publish(Event::ServerIdle {
                reason: IdleReason::AllCodonsCompleted,
                message,
            })
            .await;
    }
    Ok(())
}
