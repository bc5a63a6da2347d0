//! A plan that is made anew from hank.json as it is now (STATE-45).

use std::fmt;

use super::expand::{ExpandError, LoopSignal, LoopStep, advance_loop, initial_plan};
use super::{Decision, decide, obstacle};
use crate::document::{HankweaveState, PlanEntry};
use crate::hank::{Hank, HankItem};
use crate::id::{CodonId, LoopId};
use crate::thread::{ExecutionThread, Recovery, ThreadCodon};

/// A codon outside of loops, or a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlannedItem<'a> {
    /// The configured id of a codon.
    Codon(&'a str),
    /// The id of a loop.
    Loop(&'a LoopId),
}

impl<'a> PlannedItem<'a> {
    pub(super) fn of_hank(item: &'a HankItem) -> Self {
        match item {
            HankItem::Codon(codon) => Self::Codon(codon.id.configured()),
            HankItem::Loop(found) => Self::Loop(&found.id),
        }
    }

    pub(super) fn of_plan(entry: &'a PlanEntry) -> Self {
        match &entry.loop_context {
            Some(context) => Self::Loop(&context.loop_id),
            None => Self::Codon(entry.codon_id.configured()),
        }
    }
}

impl fmt::Display for PlannedItem<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Codon(id) => write!(out, "codon `{id}`"),
            Self::Loop(id) => write!(out, "loop `{id}`"),
        }
    }
}

/// How the newest codon stands where a run goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Newest {
    /// It has ended, and what follows it is next.
    Done,
    /// It goes on, or is run again, before anything else.
    First,
    /// The run goes back behind what succeeded before it, and on from there.
    Left,
}

impl Newest {
    /// With `recovery`, if somebody has chosen one.
    pub(super) fn of(
        state: &HankweaveState,
        thread: &ExecutionThread,
        hank: &Hank,
        recovery: Option<Recovery>,
    ) -> Self {
        let Some(newest) = thread.codons.first().map(|entry| entry.codon.as_ref()) else {
            return Self::Done;
        };
        let decision = decide(state, thread, hank);
        let again = match &decision {
            Decision::Start(entry) | Decision::Ask(entry) => entry.codon_id == *newest.codon_id(),
            Decision::Retry(_) => true,
            _ => false,
        };
        let is_obstacle = !newest.is_terminal() || obstacle(state, thread, hank).is_some();
        let stays = match recovery {
            Some(Recovery::Session | Recovery::CrashPoint) => true,
            Some(Recovery::LastSuccess) => false,
            None => !is_obstacle,
        };
        match (is_obstacle || again, stays) {
            (false, _) => Self::Done,
            (true, true) => Self::First,
            (true, false) => Self::Left,
        }
    }
}

/// How much of the plan of `state`, from its beginning, stays as it is: what has succeeded, or was passed over.
pub(super) fn kept(state: &HankweaveState, thread: &ExecutionThread, newest: Newest) -> usize {
    let id = |codon: &ThreadCodon| codon.codon.codon_id().clone();
    let left = thread.codons.first().map(id).filter(|_| newest != Newest::Done);
    let mut ended = thread
        .codons
        .iter()
        .map(id)
        .filter(|id| Some(id) != left.as_ref());
    let place = |id| state.execution_plan.iter().position(|entry| entry.codon_id == id);
    ended.find_map(place).map_or(0, |place| place + 1)
}

/// Whether the codon is the next one of the plan behind what has succeeded before the newest one.
#[must_use]
pub fn follows_success(state: &HankweaveState, thread: &ExecutionThread, id: &CodonId) -> bool {
    let next = state.execution_plan.get(kept(state, thread, Newest::Left));
    next.is_some_and(|next| next.codon_id == *id)
}

/// The plan that goes on with the hank as it is now: what has succeeded stays, and what stands behind it in the hank follows, each codon once. A codon that
/// is to go on, or to be run again with the files as they are, comes first.
///
/// # Errors
///
/// [`ExpandError::NothingRemains`] when the hank has nothing of what has succeeded, so that nobody can know what is behind it; others when a loop cannot be
/// repeated.
pub fn replan(
    state: &HankweaveState,
    thread: &ExecutionThread,
    hank: &Hank,
    recovery: Option<Recovery>,
) -> Result<Vec<PlanEntry>, ExpandError> {
    let newest = Newest::of(state, thread, hank, recovery);
    let kept = kept(state, thread, newest);
    let place = |entry: &PlanEntry| {
        let item = PlannedItem::of_plan(entry);
        hank.items
            .iter()
            .position(|written| PlannedItem::of_hank(written) == item)
    };
    let mut plan = state.execution_plan[..kept].to_vec();
    let behind = match plan.iter().rev().find_map(place) {
        Some(place) => place + 1,
        None if plan.is_empty() => 0,
        None => return Err(ExpandError::NothingRemains),
    };
    if newest == Newest::First {
        let goes_on = thread.codons.first().map(|entry| entry.codon.codon_id());
        let entries = state.execution_plan.iter();
        plan.extend(entries.filter(|entry| Some(&entry.codon_id) == goes_on).cloned());
    }
    if let Some(rest) = rest_of_loop(thread, hank, &plan, newest)? {
        plan.extend(rest);
    }
    let is_next = |entry: &PlanEntry| {
        let item = PlannedItem::of_plan(entry);
        place(entry) >= Some(behind) && !plan.iter().any(|known| PlannedItem::of_plan(known) == item)
    };
    let follows: Vec<_> = initial_plan(hank).into_iter().filter(is_next).collect();
    plan.extend(follows);
    Ok(plan)
}

/// What is left of the iteration in which `plan` ends. The next one was only planned where a codon of it has run.
fn rest_of_loop(
    thread: &ExecutionThread,
    hank: &Hank,
    plan: &[PlanEntry],
    newest: Newest,
) -> Result<Option<Vec<PlanEntry>>, ExpandError> {
    let Some(last) = plan.last() else {
        return Ok(None);
    };
    let mut records = thread.codons.iter().map(|entry| entry.codon.as_ref());
    let signal = match newest {
        Newest::First => LoopSignal::Nothing,
        Newest::Done | Newest::Left => records
            .find(|codon| *codon.codon_id() == last.codon_id)
            .map_or(LoopSignal::Nothing, LoopSignal::of),
    };
    let iteration = |entry: &PlanEntry| entry.loop_context.as_ref().map(|context| context.iteration);
    let step = advance_loop(hank, plan, &last.codon_id, signal)?;
    Ok(match step {
        LoopStep::Expand(entries, _)
            if newest == Newest::Left || entries.first().and_then(iteration) == iteration(last) =>
        {
            Some(entries)
        }
        _ => None,
    })
}
