//! Decides the position from which the next run continues (RUN-2), and with it the part of the plan that is done.

use std::collections::HashMap;

use super::{Decision, decide, obstacle};
use crate::codon::{CheckpointType, CodonExecution};
use crate::document::{
    ContinuationSource, HankweaveState, KnownCheckpoints, PendingRollback, PlanEntry, SharedList,
};
use crate::hank::Hank;
use crate::id::CodonId;
use crate::thread::{ExecutionThread, Recovery, Resume};

/// User's request for the next run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunIntent {
    /// Position to continue from after a failure, a crash or an interruption.
    pub recovery: Option<Recovery>,
    /// Whether the newest codon runs again, whatever its result.
    pub again: bool,
}

/// Returns the position from which the next run continues. `thread` was built with the commits of `known`.
///
/// The first of these that applies decides: a pending rollback; a codon to which the user rolled back; the session of the newest codon; the newest codon again;
/// the source of a run that ended before its first codon; the end of the thread. After a failure that blocks, the last success replaces the end of the thread;
/// without a success, the beginning does.
#[must_use]
pub fn resume(
    state: &HankweaveState,
    thread: &ExecutionThread,
    hank: &Hank,
    intent: RunIntent,
    known: &dyn KnownCheckpoints,
) -> Resume {
    if state.runs.is_empty() {
        return Resume::Fresh;
    }
    // A pending rollback decides, with two exceptions. If the thread at its target ends with a failure that blocks, nothing would run from there, so the rules
    // for a failure below decide. And the user may want to continue in the session of the interrupted codon.
    let names_session = intent.recovery == Some(Recovery::Session) && thread.interruption().is_some();
    if let Some(pending) = &state.pending_rollback
        && obstacle(state, thread, hank).is_none()
        && !names_session
    {
        return Resume::RollBack(pending.source.clone());
    }
    // A failed or interrupted codon that the hank does not have any more cannot continue.
    let newest = thread.codons.first().map(|entry| entry.codon.as_ref());
    let is_gone = newest.is_some_and(|codon| {
        let id = codon.codon_id().configured();
        matches!(codon, CodonExecution::Failed(_)) && hank.codon(id).is_none()
    });
    // A user who rolled back to where a codon was interrupted, or crashed, wants it to run with those files.
    let user_rolled_back = state
        .pending_rollback
        .as_ref()
        .is_some_and(PendingRollback::is_chosen);
    if user_rolled_back
        && intent.recovery.is_none()
        && thread.is_unfinished()
        && !is_gone
        && let Some(source) = thread.again()
    {
        return Resume::Again(source);
    }
    let chosen = intent.recovery.or(is_gone.then_some(Recovery::LastSuccess));
    let is_open = newest.is_some_and(|codon| !codon.is_terminal());
    // A chosen recovery counts after every interruption, even after one that does not block.
    let blocked = is_open
        || obstacle(state, thread, hank).is_some()
        || (chosen.is_some() && thread.interruption().is_some());
    let recovery = chosen.unwrap_or_else(|| thread.default_recovery());
    if !intent.again
        && recovery == Recovery::Session
        && let Some(resume) = unused_session(state).or_else(|| thread.in_session())
    {
        return resume;
    }
    let again = intent.again || (blocked && recovery != Recovery::LastSuccess);
    // If the thread has no codon before the newest one, the plan may name one.
    let before_in_plan = thread.across_the_cut(state);
    if again && let Some(source) = before_in_plan.clone().or_else(|| thread.again()) {
        return Resume::Again(source);
    }
    let untouched = state.runs.front().filter(|run| run.codons.is_empty());
    let source = untouched.and_then(|run| run.starting_conditions.source());
    if let Some(source) = source
        && !blocked
    {
        // A run that ended before its first codon is continued where it started, which may be at a rig-setup checkpoint or in a session.
        return unused_session(state).unwrap_or_else(|| Resume::Continue(source.clone()));
    }
    let resume = without_gap(thread.resume(blocked), state, thread, hank);
    if resume != Resume::Fresh {
        return resume;
    }
    match before_in_plan {
        Some(source) => Resume::Again(source),
        // A start at the beginning after a failure restores the files of the beginning, too.
        None if blocked => {
            let beginning = thread.beginning(state, known);
            beginning.map_or(Resume::Fresh, Resume::RollBack)
        }
        None => Resume::Fresh,
    }
}

/// Replaces a rollback to the rig-setup checkpoint of a codon by a fresh start, if the plan has codons in front of that codon that never ran.
fn without_gap(resume: Resume, state: &HankweaveState, thread: &ExecutionThread, hank: &Hank) -> Resume {
    let is_at_rig_setup =
        |source: &ContinuationSource| source.checkpoint_type(state) == Some(CheckpointType::RigSetup);
    match &resume {
        Resume::RollBack(source) if is_at_rig_setup(source) => {
            let next = state
                .execution_plan
                .get(ResumePoint::of(state, thread, hank, &resume).kept);
            match next.map(|next| &next.codon_id) == source.after_codon.as_ref() {
                true => resume,
                false => Resume::Fresh,
            }
        }
        _ => resume,
    }
}

/// Returns the session in which the newest run was to continue, if that run ended before its first codon.
fn unused_session(state: &HankweaveState) -> Option<Resume> {
    let newest = state.runs.front().filter(|run| run.codons.is_empty())?;
    let conditions = &newest.starting_conditions;
    let (source, session) = (conditions.source()?, conditions.resumed_session()?);
    Some(Resume::Session(source.clone(), session.clone()))
}

/// Position of a run in the plan at its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ResumePoint {
    /// Number of entries at the front of the plan that are done.
    pub(super) kept: usize,
    /// Codon with which the run starts, if it continues that codon or runs it again: the codon may be at any position in the plan. `None` if the run starts
    /// with the entry after the done ones.
    pub(super) first: Option<CodonId>,
}

impl ResumePoint {
    /// Returns the position of a run that starts this way.
    pub(super) fn of(state: &HankweaveState, thread: &ExecutionThread, hank: &Hank, resume: &Resume) -> Self {
        let newest = || thread.codons.first().map(|entry| entry.codon.codon_id().clone());
        let is_at_rig_setup =
            |source: &ContinuationSource| source.checkpoint_type(state) == Some(CheckpointType::RigSetup);
        let (done, first) = match resume {
            Resume::Fresh => (None, None),
            Resume::Again(source) => (source.after_codon.clone(), newest()),
            Resume::Session(source, _) => (before(thread, source), source.after_codon.clone()),
            // The newest codon was interrupted or is retried.
            Resume::Continue(_) if runs_again(state, thread, hank) => {
                let source = thread.again();
                (source.and_then(|source| source.after_codon), newest())
            }
            Resume::Continue(source) if is_at_rig_setup(source) => {
                (before(thread, source), source.after_codon.clone())
            }
            Resume::RollBack(source) if is_at_rig_setup(source) => (before(thread, source), None),
            Resume::Continue(source) | Resume::RollBack(source) => (source.after_codon.clone(), None),
        };
        let kept = done.map_or(0, |done| position_after(&state.execution_plan, thread, &done));
        Self { kept, first }
    }
}

/// Returns whether the newest codon is also the next one.
fn runs_again(state: &HankweaveState, thread: &ExecutionThread, hank: &Hank) -> bool {
    let newest = thread.codons.first().map(|entry| entry.codon.codon_id());
    match decide(state, hank) {
        Decision::Retry(_) => true,
        Decision::Start(entry) | Decision::Ask(entry) => Some(&entry.codon_id) == newest,
        _ => false,
    }
}

/// Returns the codon of the thread before the codon that `source` names.
fn before(thread: &ExecutionThread, source: &ContinuationSource) -> Option<CodonId> {
    let ids = thread.codons.iter().map(|entry| Some(entry.codon.codon_id()));
    let is_named = |id: &Option<&CodonId>| *id == source.after_codon.as_ref();
    let mut older = ids.skip_while(|id| !is_named(id)).skip_while(is_named);
    older.next().flatten().cloned()
}

/// Returns the position in the plan after a codon of the thread. If the plan does not have the codon, the codon before it in the thread counts.
fn position_after(plan: &SharedList<PlanEntry>, thread: &ExecutionThread, codon: &CodonId) -> usize {
    let positions: HashMap<&CodonId, usize> = plan.iter().map(|entry| &entry.codon_id).zip(0..).collect();
    let ids = thread.codons.iter().map(|entry| entry.codon.codon_id());
    let older = ids.skip_while(|id| *id != codon);
    let found = std::iter::once(codon)
        .chain(older)
        .find_map(|id| positions.get(id));
    found.map_or(0, |position| position + 1)
}
