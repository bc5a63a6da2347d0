//! Runs one codon of a run: finds the agent and the session to continue with, runs the codon while commands may end it, and copies its results.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use hankweave_core::agent::InterruptedBy;
use hankweave_core::budget::CodonLimits;
use hankweave_core::codon::{CodonExecution, CodonStatus};
use hankweave_core::document::{HankweaveState, PlanEntry};
use hankweave_core::id::{CodonId, SessionId};
use hankweave_core::plan::ExpandError;
use hankweave_core::thread::{self, ThreadTip};
use hankweave_core::wire::Event;

use super::super::command::{AcceptedCommand, Inbox, Refusal, RunCommand, RunnerRequest, answer};
use super::super::error::RunError;
use super::super::finish::{CodonFinish, PublishError};
use super::agent::{can_resume, choose_agent, earlier_work, failed_session};
use crate::arrival;
use crate::codon::{
    self, Allowance, CodonCommand, CodonEnd, CodonRun, CurrentResult, NoBudget, Orders, Remarks, RigNeed,
    RunContext, rehearsal,
};
use crate::recovery::without_own_files;
use crate::world::suspension::Stopwatch;

/// Result of a codon, reduced to what the loop needs.
pub(super) enum CodonResult {
    /// The codon has ended; its record decides what follows.
    ToTheEnd,
    /// The run pauses with the codon or before it, for this reason.
    Paused(InterruptedBy, String),
    /// The codon was stopped by force.
    Forced,
    /// The codon failed because a necessary file could not be written.
    Unsaved,
    /// The codon completed, and its results were not copied to the output directory.
    Unpublished(PublishError),
}

/// Runs one codon to its end and passes orders to it, then copies its results to the output directory. `patterns` select the files of its checkpoints.
pub(super) async fn run_codon(
    context: &RunContext,
    inbox: &mut Inbox,
    state: &HankweaveState,
    mut limits: CodonLimits,
    (entry, patterns): (&PlanEntry, Vec<String>),
    rig: RigNeed,
) -> Result<CodonResult, RunError> {
    let id = &entry.codon_id;
    let removed = || RunError::ChangedHank(ExpandError::RemovedCodon(id.clone()));
    let config = context.hank.codon(id.configured()).ok_or_else(removed)?;
    let orders = Orders::new(&context.shutdown);
    let thread = &ThreadTip::of(state);
    let agent = choose_agent(context, thread, id, config);
    let config = &*agent.config;
    // The session in which the last attempt of this codon was interrupted or failed; it counts if the agent can continue it.
    let interrupted_session = thread::resumed_session(state, id)
        .or_else(|| limited_session(thread, id))
        .or_else(|| failed_session(thread, &agent, id));
    let agent_can_resume = |session: &&SessionId| can_resume(context, state, &agent, id, session);
    let own_session = interrupted_session.filter(agent_can_resume);
    if let Some(session) = own_session {
        limits = limits.going_on(thread, id, session);
    }
    if let Some(NoBudget::Pauses(why)) = codon::no_budget_left(&limits) {
        // A codon with no budget left is not opened: it starts when the budget is raised (HANK-40).
        return Ok(CodonResult::Paused(InterruptedBy::Ceiling, why));
    }
    let in_own_session = own_session.is_some();
    let forks = entry.codon.forked().is_some() && !in_own_session;
    let can_fork = || {
        let driver = context.drivers.get(config.agent_name());
        driver.is_some_and(|driver| driver.capabilities().fork)
    };
    // The session to continue: the codon's own, or by its `continuationMode` that of another codon.
    let can_continue = |session: &SessionId| agent_can_resume(&session) && (!forks || can_fork());
    let mut wanted = own_session.cloned().or_else(|| session(state, thread, id));
    // A session that this agent cannot continue is left, and a summary takes its place.
    let left = wanted.take_if(|session| !can_continue(session));
    let reachable_session = match &wanted {
        // In the attempt before, the agent did not know the session: this attempt starts a new one.
        Some(session) if was_lost(thread, id, session) => None,
        _ => reachable(context, id, wanted.clone()).await,
    };
    let in_skipped_session = reachable_session
        .as_ref()
        .is_some_and(|session| was_skipped(thread, session));
    let session_is_elsewhere = left.is_some() || (wanted.is_some() && reachable_session.is_none());
    let work = match reachable_session {
        Some(_) => None,
        None => earlier_work(context, thread, id, &agent, left.as_ref()),
    };
    let handover = match work {
        Some(work) => codon::summary(context, work).await,
        None => None,
    };
    let codon = CodonRun {
        cost_is_lower_bound: AtomicBool::new(false),
        remarks: Remarks::default(),
        result: CurrentResult::default(),
        watchers: Mutex::default(),
        end_watchers: Mutex::default(),
        allowance: Arc::new(Allowance::new(&limits, orders.token())),
        run: context,
        entry,
        config,
        chosen: agent.chosen.clone(),
        falls_back: agent.falls_back,
        handover,
        in_own_session: in_own_session && !session_is_elsewhere,
        in_skipped_session: in_skipped_session && !in_own_session,
        is_fork: forks && reachable_session.is_some(),
        session: reachable_session,
        session_is_elsewhere,
        patterns: without_own_files(patterns, &context.own_files),
        rig,
        limits,
        begun: Stopwatch::start(&*context.world.clock),
        orders: orders.clone(),
    };
    let finish = CodonFinish::new(context, entry, config, orders.clone());
    finish.announce().await;
    let (execution, unsaved, published) = {
        let work = async {
            let end = codon::execute(&codon).await?;
            let unsaved = matches!(end, CodonEnd::Unsaved(_));
            let mut execution = end.into_execution();
            codon.run_end_watchers(&mut execution).await;
            let published = finish.run(&execution).await;
            Ok::<_, RunError>((execution, unsaved, published))
        };
        inbox
            .obey_during(work, |request| obey_or_refuse(context, request, &orders, id))
            .await?
    };
    debug_assert!(
        ThreadTip::of(&context.manager.snapshot())
            .newest()
            .is_some_and(|newest| has_notes(newest.codon)
                || **newest.codon == execution.clone().measured_like(newest.codon)),
        "the typed codon and the recorded one have parted"
    );
    if matches!(execution, CodonExecution::Completed(_)) {
        rehearsal::report_results(context, entry, config).await;
    }
    Ok(match published {
        Err(why) => CodonResult::Unpublished(why),
        Ok(()) if orders.was_forced() => CodonResult::Forced,
        Ok(()) if unsaved => CodonResult::Unsaved,
        Ok(()) if execution.interruption() == Some(InterruptedBy::Ceiling) => paused(&execution),
        Ok(()) => CodonResult::ToTheEnd,
    })
}

/// The result of a codon that was interrupted because a budget is used up: the run pauses.
fn paused(execution: &CodonExecution) -> CodonResult {
    let reason = execution
        .failure_reason()
        .and_then(|reason| reason.message.clone());
    CodonResult::Paused(InterruptedBy::Ceiling, reason.unwrap_or_default())
}

/// Whether the record has notes that the typed codon does not have, so that the two differ.
fn has_notes(codon: &CodonExecution) -> bool {
    codon.budget_exceeded().is_some()
        || codon.context_exceeded()
        || codon.agent_cost_is_lower_bound()
        || codon.loop_check().is_some()
        || codon.loop_stall().is_some()
        || !codon.noted_remarks().is_empty()
}

/// Returns the session that the codon is to continue by its `continuationMode`. The thread of a run that was opened for a chosen codon does
/// not include the run before it, but the sessions of that run still exist.
fn session(state: &HankweaveState, thread: &ThreadTip<'_>, id: &CodonId) -> Option<SessionId> {
    let thread_before = || {
        let source = state.runs.front()?.starting_conditions.source()?;
        let is_cut_off = source.after_codon.is_none();
        is_cut_off.then(|| ThreadTip::ending_in(state, &source.run_id))
    };
    let own = thread.continuation_session(id).cloned();
    own.or_else(|| thread_before()?.continuation_session(id).cloned())
        .or_else(|| silent_skipped_session(thread, id).cloned())
}

/// Returns the session of the codon before, if that was skipped before a message of its agent was counted. Some agents
/// report the number of messages only at their end, so the session may well exist. If it does not, the agent [begins a
/// new one](was_lost).
fn silent_skipped_session<'t>(thread: &'t ThreadTip<'_>, id: &CodonId) -> Option<&'t SessionId> {
    let newest = thread.continued_attempts(id).next()?;
    let was_skipped = newest.status() == CodonStatus::Skipped;
    newest.agent_session_id().filter(|_| was_skipped)
}

/// Returns the session of the codon, if the newest attempt of the thread is its own and met a usage limit.
fn limited_session<'t>(thread: &'t ThreadTip<'_>, id: &CodonId) -> Option<&'t SessionId> {
    let newest = thread.newest()?.codon.codon_id();
    let was_limited = thread.interruption() == Some(InterruptedBy::UsageLimit);
    thread.own_session().filter(|_| was_limited && newest == id)
}

/// Whether the newest attempt of the codon ended because its agent does not know this session.
fn was_lost(thread: &ThreadTip<'_>, id: &CodonId, session: &SessionId) -> bool {
    let newest = thread.newest().map(|newest| newest.codon);
    newest
        .filter(|newest| newest.codon_id() == id)
        .is_some_and(|newest| {
            newest.interruption() == Some(InterruptedBy::LostSession)
                && newest.previous_session_id() == Some(session)
        })
}

/// Whether this is the session of a codon that was skipped.
fn was_skipped(thread: &ThreadTip<'_>, session: &SessionId) -> bool {
    let mut codons = thread.codons().map(|entry| entry.codon);
    let of_session = codons.find(|codon| codon.agent_session_id() == Some(session));
    of_session.is_some_and(|codon| codon.status() == CodonStatus::Skipped)
}

/// Returns the session, unless its transcript stayed on another machine (RUN-27). In that case the agent starts a new
/// session, and an event reports it.
async fn reachable(context: &RunContext, id: &CodonId, session: Option<SessionId>) -> Option<SessionId> {
    let session = session?;
    let (disk, dir, wanted) = (context.world.disk.clone(), context.dir.clone(), session.clone());
    let is_elsewhere = move || arrival::is_elsewhere(&*disk, &dir, &wanted);
    if !context.world.blocking.run(is_elsewhere).await {
        return Some(session);
    }
    let message = format!("{id}: session {session} stayed on another machine; its agent begins a new one");
    context.publish(Event::Info { message }).await;
    None
}

/// Carries out or refuses a command while a codon runs. Once the codon has ended and only its results are being copied, clients show it as ended. Commands to
/// start a codon or to roll back are then returned, to be carried out after the copy.
fn obey_or_refuse(
    context: &RunContext,
    request: RunnerRequest,
    orders: &Orders,
    id: &CodonId,
) -> Option<RunnerRequest> {
    let running = |what| {
        Err(Refusal::CodonRunning {
            what,
            codon: id.clone(),
        })
    };
    let result = match request.command {
        _ if context.shutdown.cause().is_some() => Err(Refusal::Stopping),
        RunCommand::Next | RunCommand::Redo | RunCommand::Start { .. } | RunCommand::RollBack { .. }
            if has_ended(context, id) =>
        {
            return Some(request);
        }
        RunCommand::Next => running("start the next codon"),
        RunCommand::Redo => running("redo"),
        RunCommand::Start { .. } => running("start another codon"),
        RunCommand::Answer { codon_id, .. } => Err(Refusal::NotAsked(codon_id)),
        RunCommand::RollBack { .. } => running("roll back"),
        RunCommand::Skip => {
            orders.give(CodonCommand::Skip);
            Ok(AcceptedCommand::Stopping(id.clone()))
        }
        RunCommand::ForceStop { reason } => {
            orders.give(CodonCommand::ForceStop(reason));
            Ok(AcceptedCommand::Stopping(id.clone()))
        }
    };
    answer(request.reply, result);
    None
}

/// Whether the newest attempt of the codon is recorded as ended.
fn has_ended(context: &RunContext, id: &CodonId) -> bool {
    let state = context.manager.snapshot();
    let newest = state.runs.front().and_then(|run| run.codons.last());
    newest.is_some_and(|codon| codon.codon_id() == id && codon.status().is_terminal())
}
