//! What hank.json says by now, beside the plan with which a run began (STATE-45).

use std::fmt;

use super::expand::{ExpandError, initial_plan, loop_of};
use crate::codon::CodonExecution;
use crate::document::{HankweaveState, PlanEntry};
use crate::hank::{Hank, HankItem};
use crate::id::LoopId;
use crate::thread::ExecutionThread;

/// How a hank differs from the stored plan of a run that goes on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HankChanges<'a> {
    /// Why the rest of the plan cannot be done with it.
    pub misfits: Vec<ExpandError>,
    /// What the plan lacks, in the order of the hank: none of it runs.
    pub added: Vec<PlannedItem<'a>>,
    /// Whether what both have stands in another order than planned.
    pub reordered: bool,
}

impl HankChanges<'_> {
    /// What a run goes on without, in words; `None` when that is nothing.
    #[must_use]
    pub fn notice(&self) -> Option<String> {
        let names: Vec<_> = self.added.iter().map(ToString::to_string).collect();
        let new = match &names[..] {
            [] => None,
            [one] => Some(format!("{one} is new")),
            more => Some(format!("{} are new", more.join(", "))),
        };
        let reordered = self.reordered.then(|| "the order is another one".to_owned());
        let changes: Vec<_> = new.into_iter().chain(reordered).collect();
        (!changes.is_empty()).then(|| {
            format!(
                "hank.json has changed since the plan of this run was made: {}; the plan stays, unless --replan takes what \
                 comes behind the newest codon from hank.json, or --new starts over",
                changes.join(", and ")
            )
        })
    }
}

/// A codon outside of loops, or a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlannedItem<'a> {
    /// The configured id of a codon.
    Codon(&'a str),
    /// The id of a loop.
    Loop(&'a LoopId),
}

impl<'a> PlannedItem<'a> {
    fn of_hank(item: &'a HankItem) -> Self {
        match item {
            HankItem::Codon(codon) => Self::Codon(codon.id.configured()),
            HankItem::Loop(found) => Self::Loop(&found.id),
        }
    }

    fn of_plan(entry: &'a PlanEntry) -> Self {
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

/// Compares `hank` with the plan of `state`, as a run would go on at the end of `thread`. Without a plan nothing has changed.
///
/// A loop that is planned takes its later iterations from the hank, so what is new in it is no change.
#[must_use]
pub fn hank_changes<'a>(
    state: &'a HankweaveState,
    thread: &ExecutionThread,
    hank: &'a Hank,
) -> HankChanges<'a> {
    let mut planned: Vec<_> = state.execution_plan.iter().map(PlannedItem::of_plan).collect();
    if planned.is_empty() {
        return HankChanges::default();
    }
    planned.dedup();
    let written: Vec<_> = hank.items.iter().map(PlannedItem::of_hank).collect();
    let known = written.iter().filter(|item| planned.contains(item));
    let kept = planned.iter().filter(|item| written.contains(item));
    HankChanges {
        misfits: misfits(state, thread, hank),
        reordered: !known.eq(kept),
        added: written
            .iter()
            .filter(|item| !planned.contains(item))
            .copied()
            .collect(),
    }
}

/// Why the hank cannot do what the plan still has: everything from the newest codon on. Of a newest codon that is over only its
/// loop counts, which may go on.
fn misfits(state: &HankweaveState, thread: &ExecutionThread, hank: &Hank) -> Vec<ExpandError> {
    let newest = thread.codons.first().map(|entry| entry.codon.as_ref());
    let is_newest = |entry: &PlanEntry| newest.is_some_and(|codon| *codon.codon_id() == entry.codon_id);
    let is_over = matches!(
        newest,
        Some(CodonExecution::Completed(_) | CodonExecution::Skipped(_))
    );
    let first = state.execution_plan.iter().position(is_newest).unwrap_or(0);
    let misfit = |entry: &PlanEntry| {
        let id = &entry.codon_id;
        let looped = entry
            .loop_context
            .as_ref()
            .map(|context| loop_of(hank, id, context));
        if let Some(Err(error)) = looped {
            return Some(error);
        }
        let is_needed = !(is_over && is_newest(entry));
        let is_removed = is_needed && hank.codon(id.configured()).is_none();
        is_removed.then(|| ExpandError::RemovedCodon(id.clone()))
    };
    state.execution_plan[first..].iter().filter_map(misfit).collect()
}

/// The plan that goes on with the hank as it is now: what has run stays, and what stands behind it in the hank follows.
///
/// A newest codon that has failed and that the hank does not have any more is left out, so that a run goes back behind what succeeded before it.
///
/// # Errors
///
/// [`ExpandError::NothingRemains`] when the hank has nothing of what has run, so that nobody can know what is behind it.
pub fn replan(
    state: &HankweaveState,
    thread: &ExecutionThread,
    hank: &Hank,
) -> Result<Vec<PlanEntry>, ExpandError> {
    let newest = thread.codons.first().map(|entry| entry.codon.as_ref());
    let is_newest = |entry: &PlanEntry| newest.is_some_and(|codon| *codon.codon_id() == entry.codon_id);
    let ran = state
        .execution_plan
        .iter()
        .position(is_newest)
        .map_or(0, |place| place + 1);
    let mut plan = state.execution_plan[..ran].to_vec();
    let place = |entry: &PlanEntry| {
        let item = PlannedItem::of_plan(entry);
        hank.items
            .iter()
            .position(|written| PlannedItem::of_hank(written) == item)
    };
    if matches!(newest, Some(CodonExecution::Failed(_))) {
        plan.pop_if(|last| place(last).is_none());
    }
    let behind = match plan.iter().rev().find_map(place) {
        Some(place) => place + 1,
        None if plan.is_empty() => 0,
        None => return Err(ExpandError::NothingRemains),
    };
    let has_run: Vec<_> = state.execution_plan[..plan.len()]
        .iter()
        .map(PlannedItem::of_plan)
        .collect();
    let is_next =
        |entry: &PlanEntry| place(entry) >= Some(behind) && !has_run.contains(&PlannedItem::of_plan(entry));
    plan.extend(initial_plan(hank).into_iter().filter(is_next));
    Ok(plan)
}
