//! Decides the next step of the runner, as one pure function over the document and the hank (STATE-44). The runner calls [`decide`] after each codon.

use std::time::Duration;

use super::policy::{FailureAction, consequence, limited};
use super::{ExpandError, LoopSignal, LoopStep, Retry, UsageLimit, advance_loop_at};
use crate::codon::{CodonExecution, Failed};
use crate::document::{HankweaveState, PlanEntry, PlanExtension};
use crate::hank::{Hank, LoopConfig, OnFailure};
use crate::id::CodonId;
use crate::thread::{ExecutionThread, ThreadTip, resumed_session};

/// Next step of the runner.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Run this codon.
    Start(Box<PlanEntry>),
    /// Run this codon after the user has approved it.
    Ask(Box<PlanEntry>),
    /// Run this codon again, after a wait.
    Retry(Retry),
    /// A loop continues, or its rest is dropped: store that, then decide again.
    Extend(PlanExtension),
    /// A codon is open.
    Wait,
    /// Every codon of the plan has ended.
    Done,
    /// The run cannot continue.
    Blocked(BlockedBy),
}

/// Why a run cannot continue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockedBy {
    /// The newest codon failed, and its policy neither ignores that nor allows another attempt.
    FailedCodon(CodonId),
    /// The user was asked whether this codon may start, and denied it.
    Denied(CodonId),
    /// The loop of this codon, which starts the next iteration, only repeats itself: no file changes, and the output of its check does not change.
    Stuck(CodonId),
    /// The run continues a run that the document does not hold, so its position is unknown.
    MissingParent,
    /// The plan does not match the hank, because hank.json was changed (STATE-45).
    ChangedHank(ExpandError),
}

/// Decides from the document and the hank, about the thread that ends in the newest run.
///
/// The plan comes from the document, loops and failure policies from the hank. Equal input gives an equal answer, so a restart after a crash decides
/// as the crashed runner would have done.
#[must_use]
pub fn decide(state: &HankweaveState, hank: &Hank) -> Decision {
    match continue_plan(state, &ThreadTip::of(state), hank) {
        Decision::Start(entry) if is_stuck(state, hank, &entry) => {
            Decision::Blocked(BlockedBy::Stuck(entry.codon_id))
        }
        Decision::Start(entry) => start_or_ask(state, hank, entry),
        other => other,
    }
}

/// Whether a loop has only repeated itself as often as its limit allows, so that the user has to look before its next iteration, which starts with `next`
/// (STATE-69). Only codons of the newest run count: a later run has none yet, so it starts that iteration.
fn is_stuck(state: &HankweaveState, hank: &Hank, next: &PlanEntry) -> bool {
    let Some(newest) = state.runs.front().and_then(|run| run.codons.last()) else {
        return false;
    };
    let (Some(ended), Some(starting)) = (newest.loop_context(), &next.loop_context) else {
        return false;
    };
    let limit = hank.find_loop(&ended.loop_id).and_then(LoopConfig::stall_limit);
    let is_next_iteration = starting.loop_id == ended.loop_id && starting.iteration > ended.iteration;
    let stalled = newest.loop_stall().map_or(0, |stall| stall.iterations);
    is_next_iteration && limit.is_some_and(|limit| stalled >= limit)
}

/// Decides, and after every [`Extend`](Decision::Extend) again on the extended plan, until another decision comes.
#[must_use]
pub fn decide_with_replans(state: &HankweaveState, hank: &Hank) -> Decision {
    let mut state = state.clone();
    loop {
        match decide(&state, hank) {
            Decision::Extend(extension) => {
                let extended = extension.extend(&mut state.execution_plan);
                extended.expect("it was made for this plan");
            }
            other => return other,
        }
    }
}

/// Returns why the loop of the codon is stuck, for people, after the newest codon of the document.
#[must_use]
pub fn stuck_words(state: &HankweaveState, next: &CodonId) -> Option<String> {
    let newest = ThreadTip::of(state).newest()?.codon.loop_stall()?;
    let loop_id = &state.planned(next)?.loop_context.as_ref()?.loop_id;
    let times = match newest.iterations {
        1 => "1 iteration".to_owned(),
        times => format!("{times} iterations in a row"),
    };
    let printed = match newest.output {
        Some(_) => ", and its check printed the same as before",
        None => "",
    };
    Some(format!(
        "loop `{loop_id}` is stuck: {times} changed nothing{printed}"
    ))
}

/// Returns the decision for a codon that may need an approval before its start (STATE-65).
fn start_or_ask(state: &HankweaveState, hank: &Hank, entry: Box<PlanEntry>) -> Decision {
    let id = &entry.codon_id;
    let needs_approval = hank
        .codon(id.configured())
        .is_some_and(|config| config.approval.is_some());
    let answer = state.approval.as_ref().filter(|answer| answer.codon_id == *id);
    match answer {
        _ if !needs_approval => Decision::Start(entry),
        Some(answer) if answer.granted => Decision::Start(entry),
        Some(answer) => Decision::Blocked(BlockedBy::Denied(answer.codon_id.clone())),
        None => Decision::Ask(entry),
    }
}

/// Decides without regard to approvals and loops that repeat themselves.
fn continue_plan(state: &HankweaveState, thread: &ThreadTip<'_>, hank: &Hank) -> Decision {
    if thread.has_running_codon() {
        return Decision::Wait;
    }
    let next = thread.next_codon_id();
    let next = next.as_ref();
    let Some(newest) = thread.newest().map(|entry| entry.codon.as_ref()) else {
        return start_codon(state, next);
    };
    let interrupted = newest.interruption().is_some() && next == Some(newest.codon_id());
    let in_session = next.is_some_and(|id| resumed_session(state, id).is_some());
    // Also in its session the agent must wait for the usage limit that interrupted it, or another agent takes over.
    if let CodonExecution::Failed(failed) = newest
        && in_session
        && interrupted
        && let Some(action) = limited(hank, thread, failed)
    {
        return act(state, hank, newest, failed, action);
    }
    // A codon that continues in its session starts even after a failure that blocks. So does one that the source of the run names, as at its rig-setup
    // checkpoint, unless it is the newest codon and was interrupted: then the rules below decide.
    if in_session || (is_run_again(state, next) && !interrupted) {
        return start_codon(state, next);
    }
    match newest {
        CodonExecution::Failed(failed) => act(state, hank, newest, failed, consequence(hank, thread, failed)),
        _ => continue_after(state, hank, newest),
    }
}

/// Returns the codon because of which the user has to choose where the next run continues ([`Recovery`](crate::thread::Recovery)): a codon that failed and
/// blocks, or one that was stopped and whose failure would block.
///
/// After a pause there is nothing to choose, and a stopped codon whose failure policy is to retry or to ignore is attempted again anyway.
#[must_use]
pub fn obstacle(state: &HankweaveState, thread: &ExecutionThread, hank: &Hank) -> Option<CodonId> {
    match decide(state, hank) {
        Decision::Blocked(BlockedBy::FailedCodon(id)) => Some(id),
        Decision::Retry(retry) => {
            let stopped = thread.interruption().is_some_and(|by| !by.is_pause());
            let config = hank.codon(retry.entry.codon_id.configured());
            let aborts = config.is_none_or(|config| config.failure_policy() == OnFailure::Abort);
            (stopped && aborts).then_some(retry.entry.codon_id)
        }
        _ => None,
    }
}

/// Returns whether the source of the next run names the codon `next` itself, as it does at a rig-setup checkpoint of that codon. Most sources name the codon
/// before it.
fn is_run_again(state: &HankweaveState, next: Option<&CodonId>) -> bool {
    let source = match &state.pending_rollback {
        Some(pending) => Some(&pending.source),
        None => {
            let untouched = state.runs.front().filter(|run| run.codons.is_empty());
            untouched.and_then(|run| run.starting_conditions.source())
        }
    };
    source.is_some_and(|source| source.after_codon.is_some() && source.after_codon.as_ref() == next)
}

/// Turns the action after a failure into a decision; `newest` is the record of `failed`.
fn act(
    state: &HankweaveState,
    hank: &Hank,
    newest: &CodonExecution,
    failed: &Failed,
    action: FailureAction,
) -> Decision {
    let id = &failed.codon_id;
    match action {
        FailureAction::Continue => continue_after(state, hank, newest),
        FailureAction::Stop => Decision::Blocked(BlockedBy::FailedCodon(id.clone())),
        FailureAction::TryAgain { number, most, after } => {
            attempt_again(state, failed, (number, most, after), None)
        }
        FailureAction::WaitForLimit(limit) => attempt_again(state, failed, NO_RETRY, Some(limit)),
        FailureAction::FallBack => match attempt_again(state, failed, NO_RETRY, None) {
            Decision::Retry(retry) => Decision::Retry(Retry {
                falls_back: true,
                ..retry
            }),
            other => other,
        },
    }
}

/// `number`, `most` and `after` of a [`Retry`] that does not count as one.
const NO_RETRY: (u32, u32, Duration) = (0, 0, Duration::ZERO);

/// Returns the decision for another attempt of the failed codon.
fn attempt_again(
    state: &HankweaveState,
    failed: &Failed,
    (number, most, after): (u32, u32, Duration),
    limit: Option<UsageLimit>,
) -> Decision {
    let retry = |entry| Retry {
        entry,
        number,
        most,
        after,
        failed_at: failed.end_time,
        limit,
        falls_back: false,
    };
    // A plan that was made again may lack the codon: it is not attempted again.
    let gone = |_| Decision::Blocked(BlockedBy::FailedCodon(failed.codon_id.clone()));
    planned(state, &failed.codon_id).map_or_else(gone, |entry| Decision::Retry(retry(entry)))
}

/// Returns the entry of the plan with this id.
fn planned(state: &HankweaveState, id: &CodonId) -> Result<Box<PlanEntry>, BlockedBy> {
    let unknown = || BlockedBy::ChangedHank(ExpandError::UnknownCodon(id.clone()));
    state.planned(id).cloned().map(Box::new).ok_or_else(unknown)
}

/// Decides after a codon that has ended and does not block (STATE-42).
fn continue_after(state: &HankweaveState, hank: &Hank, ended: &CodonExecution) -> Decision {
    let plan = &state.execution_plan;
    let Some(position) = state.planned_at(ended.codon_id()) else {
        let error = ExpandError::UnknownCodon(ended.codon_id().clone());
        return Decision::Blocked(BlockedBy::ChangedHank(error));
    };
    let step = match advance_loop_at(hank, plan, position, LoopSignal::of(ended)) {
        Ok(step) => step,
        Err(error) => return Decision::Blocked(BlockedBy::ChangedHank(error)),
    };
    match step {
        LoopStep::Expand(..) | LoopStep::DropRest { .. } => {
            Decision::Extend(step.extension(plan, ended.codon_id()))
        }
        LoopStep::NotInLoop | LoopStep::MidIteration | LoopStep::Ended { .. } => {
            let next = plan.get(position + 1).cloned().map(Box::new);
            next.map_or(Decision::Done, Decision::Start)
        }
    }
}

/// Starts the codon with this id. Without one the plan is empty, or the thread does not show what is next.
fn start_codon(state: &HankweaveState, id: Option<&CodonId>) -> Decision {
    match id {
        Some(id) => planned(state, id).map_or_else(Decision::Blocked, Decision::Start),
        None if state.execution_plan.is_empty() => Decision::Done,
        None => Decision::Blocked(BlockedBy::MissingParent),
    }
}
