//! Makes the plan of a run that continues again, from hank.json as it is now (`--replan`), and looks ahead in a plan (STATE-45).

use std::collections::{HashMap, HashSet};

use super::expand::{ExpandError, LoopSignal, LoopStep, advance_loop, first_entries, iteration};
use super::onward::ResumePoint;
use crate::codon::CodonExecution;
use crate::document::{HankweaveState, PlanEntry, SharedIter, SharedList};
use crate::hank::{Hank, HankItem, OnFailure};
use crate::id::{CodonId, LoopId};
use crate::thread::ExecutionThread;

/// Greatest number of codons that [`ahead`] returns.
const MOST_AHEAD: usize = 200;

/// Returns the plan of a run that continues at `resume_point`, with the hank as it is now. The done entries stay in front. Then come the codon with
/// which the run starts, the rest of an iteration that has started, and every item of the hank that is not in the plan yet, in the order of the
/// hank.
///
/// # Errors
///
/// [`ExpandError::DuplicateCodon`] when the hank gives the id of a codon that has run in a loop to another codon; others when a loop cannot be repeated.
pub(super) fn replan(
    state: &HankweaveState,
    thread: &ExecutionThread,
    hank: &Hank,
    resume_point: &ResumePoint,
) -> Result<SharedList<PlanEntry>, ExpandError> {
    let planned = &state.execution_plan;
    let (ran, rest) = (
        planned.range(0..resume_point.kept),
        planned.range(resume_point.kept..planned.len()),
    );
    let newest = thread.newest_records();
    // A codon that failed counts as not done, so it comes again with the items of the hank below.
    let is_done = |entry: &&PlanEntry| !has_failed(&newest, hank, entry);
    let mut plan: SharedList<_> = ran.filter(is_done).cloned().collect();
    let is_first = |entry: &&PlanEntry| Some(&entry.codon_id) == resume_point.first.as_ref();
    plan.extend(rest.clone().filter(is_first).cloned());
    let iteration = rest_of_iteration(thread, hank, &plan, rest)?;
    plan.extend(iteration);
    let known: HashSet<Item<'_>> = plan.iter().map(Item::of).collect();
    let is_new = |item: &&HankItem| !known.contains(&Item::of_hank(item));
    let new_items: Vec<_> = hank.items.iter().filter(is_new).collect();
    plan.extend(new_items.into_iter().flat_map(first_entries));
    let mut ids: Vec<&CodonId> = plan.iter().map(|entry| &entry.codon_id).collect();
    ids.sort();
    match ids.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(twice) => Err(ExpandError::DuplicateCodon(twice[0].clone())),
        None => Ok(plan),
    }
}

/// Whether the entry is a codon outside of loops that has failed, and the hank now does not ignore its failures.
fn has_failed(newest: &HashMap<&CodonId, &CodonExecution>, hank: &Hank, entry: &PlanEntry) -> bool {
    let config = || hank.codon(entry.codon_id.configured());
    entry.loop_context.is_none()
        && matches!(newest.get(&entry.codon_id), Some(CodonExecution::Failed(_)))
        && config().is_some_and(|config| config.failure_policy() != OnFailure::Ignore)
}

/// Returns the rest of the iteration that has started, if the run continues inside a loop. `plan` has the done entries, `rest` are the planned ones after them.
fn rest_of_iteration(
    thread: &ExecutionThread,
    hank: &Hank,
    plan: &SharedList<PlanEntry>,
    mut rest: SharedIter<'_, PlanEntry>,
) -> Result<Vec<PlanEntry>, ExpandError> {
    let is_in = |id: &LoopId, entry: &PlanEntry| {
        let context = entry.loop_context.as_ref();
        context.is_some_and(|context| context.loop_id == *id)
    };
    let has_begun = |id: &LoopId| plan.iter().any(|entry| is_in(id, entry));
    // If the next planned entry is in a loop that has started, its iteration is taken as hank.json has it now.
    if let Some(context) = rest.next().and_then(|next| next.loop_context.as_ref())
        && let Some(found) = hank.find_loop(&context.loop_id)
        && has_begun(&context.loop_id)
    {
        let whole = iteration(found, context.iteration);
        let mut whole = whole.ok_or_else(|| ExpandError::TooManyIterations(found.id.clone()))?;
        whole.retain(|entry| !plan.iter().any(|known| known.codon_id == entry.codon_id));
        return Ok(whole);
    }
    // Otherwise the last entry may end its iteration in the old plan, but not in hank.json.
    let Some(last) = plan.last() else {
        return Ok(Vec::new());
    };
    let iteration_of = |entry: &PlanEntry| entry.loop_context.as_ref().map(|context| context.iteration);
    Ok(
        match advance_loop(hank, plan, &last.codon_id, signal(thread, &last.codon_id))? {
            LoopStep::Expand(entries, _) if entries.first().and_then(iteration_of) == iteration_of(last) => {
                entries
            }
            _ => Vec::new(),
        },
    )
}

/// Returns the signal of a completed codon to its loop; none for a codon that has not completed.
fn signal(thread: &ExecutionThread, id: &CodonId) -> LoopSignal {
    let mut records = thread.codons.iter().map(|entry| entry.codon.as_ref());
    let ended = records.find(|codon| codon.codon_id() == id && matches!(codon, CodonExecution::Completed(_)));
    ended.map_or(LoopSignal::Nothing, LoopSignal::of)
}

/// Returns the codons that a run from `resume_point` runs, if each of them completes and no loop ends before its iteration limit; at most [`MOST_AHEAD`].
pub(super) fn ahead(
    hank: &Hank,
    thread: &ExecutionThread,
    plan: &SharedList<PlanEntry>,
    resume_point: &ResumePoint,
) -> Vec<PlanEntry> {
    let mut plan = plan.clone();
    let first = plan
        .iter()
        .position(|entry| Some(&entry.codon_id) == resume_point.first.as_ref());
    let mut at = first.unwrap_or(resume_point.kept);
    let expand = |plan: &mut SharedList<PlanEntry>, ended: usize, signal| {
        let step = advance_loop(hank, plan, &plan[ended].codon_id, signal);
        if let Ok(step @ (LoopStep::Expand(..) | LoopStep::DropRest { .. })) = step {
            step.apply_to(plan);
        }
    };
    // The run starts after an entry that is done, whose loop may have more codons than are planned.
    if first.is_none() && at > 0 {
        let signal = signal(thread, &plan[at - 1].codon_id);
        expand(&mut plan, at - 1, signal);
    }
    let start = at;
    while at < plan.len() && at - start < MOST_AHEAD {
        expand(&mut plan, at, LoopSignal::Nothing);
        at += 1;
    }
    plan.range(start..at).cloned().collect()
}

/// The item of a hank to which an entry belongs: a codon, or the loop that it is in.
#[derive(PartialEq, Eq, Hash)]
enum Item<'e> {
    Codon(&'e CodonId),
    Loop(&'e LoopId),
}

impl<'e> Item<'e> {
    fn of(entry: &'e PlanEntry) -> Self {
        match &entry.loop_context {
            Some(context) => Self::Loop(&context.loop_id),
            None => Self::Codon(&entry.codon_id),
        }
    }

    fn of_hank(item: &'e HankItem) -> Self {
        match item {
            HankItem::Codon(codon) => Self::Codon(&codon.id),
            HankItem::Loop(found) => Self::Loop(&found.id),
        }
    }
}

/// The codons of a hank, each with the loop that it is in.
pub(super) struct HankPlaces<'h>(HashSet<(Option<&'h LoopId>, &'h str)>);

impl<'h> HankPlaces<'h> {
    pub(super) fn of(hank: &'h Hank) -> Self {
        let items = hank.items.iter();
        let places = items.flat_map(|item| {
            let loop_id = item.as_loop().map(|found| &found.id);
            item.codons()
                .iter()
                .map(move |codon| (loop_id, codon.id.configured()))
        });
        Self(places.collect())
    }

    /// Returns whether the hank still has the codon of this entry where it was planned: outside of loops, or in its loop.
    pub(super) fn has(&self, entry: &PlanEntry) -> bool {
        let loop_id = entry.loop_context.as_ref().map(|context| &context.loop_id);
        self.0.contains(&(loop_id, entry.codon_id.configured()))
    }
}
