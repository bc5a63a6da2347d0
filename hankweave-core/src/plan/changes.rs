//! Changes of hank.json since the plan of the run was made (STATE-45).

use std::collections::HashSet;

use super::expand::ExpandError;
use super::onward::ResumePoint;
use super::replan::{HankPlaces, ahead, replan};
use crate::document::{HankweaveState, PlanEntry, RunStatus, SharedIter, SharedList};
use crate::hank::Hank;
use crate::id::{CodonId, LoopId};
use crate::thread::ExecutionThread;

/// How many codons are named in one notice.
const MOST_NAMES: usize = 5;

/// How a hank differs from the stored plan of a run that continues.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HankChanges {
    /// Why the rest of the plan cannot be done with it.
    pub misfits: Vec<ExpandError>,
    /// Next codons of the plan, in order, when every codon completes.
    pub next: Vec<CodonId>,
    /// Those of them that a loop has taken into an iteration that was planned without them.
    pub taken: Vec<CodonId>,
    /// The codons that a plan made again would run beyond those.
    pub added: Vec<CodonId>,
    /// Codons that a new plan would run in another order.
    pub reordered: Vec<CodonId>,
    /// The codons that have run and that the hank does not have any more.
    pub gone: Vec<CodonId>,
    /// The plan was just made again from the hank.
    pub is_new: bool,
}

/// Compares `hank` with the plan of `state`, for a run at the position `standing`. Without a plan nothing has changed.
///
/// `is_new` means that the plan was just made again from the hank.
pub(super) fn hank_changes(
    state: &HankweaveState,
    thread: &ExecutionThread,
    hank: &Hank,
    standing: &ResumePoint,
    is_new: bool,
) -> HankChanges {
    let plan = &state.execution_plan;
    if plan.is_empty() {
        return HankChanges::default();
    }
    let (ran, rest) = (
        plan.range(0..standing.kept),
        plan.range(standing.kept..plan.len()),
    );
    let upcoming = ahead(hank, thread, plan, standing);
    let next = ids(&upcoming);
    let places = HankPlaces::of(hank);
    let is_missing = |entry: &&PlanEntry| !places.has(entry);
    let mut misfits: Vec<_> = rest.clone().filter(is_missing).map(removed).collect();
    let last = ran.clone().next_back();
    let is_over = has_ended(state, thread, last, rest);
    misfits.extend(open_loop(hank, ran.clone()).filter(|_| !is_new && !is_over));
    let mut changes = HankChanges {
        misfits,
        gone: ran
            .clone()
            .filter(is_missing)
            .map(|entry| entry.codon_id.clone())
            .collect(),
        is_new,
        ..HankChanges::default()
    };
    if let Ok(anew) = replan(state, thread, hank, standing) {
        let then = ids(&ahead(hank, thread, &anew, standing));
        changes.added = without(&then, &next);
        if without(&then, &changes.added) != without(&next, &without(&next, &then)) {
            changes.reordered = then;
        }
    }
    changes.taken = added_codons(plan, &upcoming, last.filter(|_| is_over && !is_new));
    changes.next = next;
    changes
}

/// Returns codons new to the plan's iterations, or to the ended loop of `ended`.
fn added_codons(
    plan: &SharedList<PlanEntry>,
    upcoming: &[PlanEntry],
    ended: Option<&PlanEntry>,
) -> Vec<CodonId> {
    let planned: HashSet<&CodonId> = plan.iter().map(|entry| &entry.codon_id).collect();
    let iterations: HashSet<_> = plan.iter().filter_map(iteration).collect();
    let ended = ended.and_then(loop_of);
    let is_taken = |entry: &&PlanEntry| {
        let is_reopened = || ended.is_some() && loop_of(entry) == ended;
        let has_begun = || iteration(entry).is_some_and(|iteration| iterations.contains(&iteration));
        !planned.contains(&entry.codon_id) && (is_reopened() || has_begun())
    };
    let taken = upcoming.iter().filter(is_taken);
    taken.map(|entry| entry.codon_id.clone()).collect()
}

/// The loop of an entry.
fn loop_of(entry: &PlanEntry) -> Option<&LoopId> {
    entry.loop_context.as_ref().map(|context| &context.loop_id)
}

/// The loop of an entry, with the number of its iteration.
fn iteration(entry: &PlanEntry) -> Option<(&LoopId, u32)> {
    let context = entry.loop_context.as_ref()?;
    Some((&context.loop_id, context.iteration))
}

fn ids(entries: &[PlanEntry]) -> Vec<CodonId> {
    entries.iter().map(|entry| entry.codon_id.clone()).collect()
}

fn removed(entry: &PlanEntry) -> ExpandError {
    let codon_id = entry.codon_id.clone();
    match &entry.loop_context {
        None => ExpandError::RemovedCodon(codon_id),
        Some(context) => ExpandError::RemovedFromLoop {
            codon_id,
            loop_id: context.loop_id.clone(),
        },
    }
}

/// Returns whether the loop of the run's position, at entry `last`, had ended: a codon after the loop has started, or the run is complete. An
/// interrupted codon of the loop has started as well, and proves nothing.
fn has_ended(
    state: &HankweaveState,
    thread: &ExecutionThread,
    last: Option<&PlanEntry>,
    mut rest: SharedIter<'_, PlanEntry>,
) -> bool {
    let newest = state.runs.front().filter(|_| state.pending_rollback.is_none());
    let is_complete = newest.is_some_and(|run| run.status == RunStatus::Completed);
    let has_begun = |id: &CodonId| thread.codons.iter().any(|entry| entry.codon.codon_id() == id);
    let within = last.and_then(loop_of);
    is_complete
        || rest
            .next()
            .is_some_and(|next| loop_of(next) != within && has_begun(&next.codon_id))
}

/// Returns an error for a loop that contains the run's position and that the hank no longer has: whether the loop would continue is unknown.
fn open_loop(hank: &Hank, mut ran: SharedIter<'_, PlanEntry>) -> Option<ExpandError> {
    let last = ran.next_back()?;
    let loop_id = last.loop_context.as_ref()?.loop_id.clone();
    hank.find_loop(&loop_id)
        .is_none()
        .then_some(ExpandError::UnknownLoop {
            codon_id: last.codon_id.clone(),
            loop_id,
        })
}

/// Those of the first that are not among the others.
fn without(ids: &[CodonId], others: &[CodonId]) -> Vec<CodonId> {
    ids.iter().filter(|id| !others.contains(id)).cloned().collect()
}

impl HankChanges {
    /// Whether a plan made again is another one.
    #[must_use]
    pub fn can_be_taken_over(&self) -> bool {
        !(self.misfits.is_empty() && self.added.is_empty() && self.reordered.is_empty())
    }

    /// Returns notices for a user whose run continues with the plan.
    #[must_use]
    pub fn notices(&self) -> Vec<String> {
        match self.is_new {
            true => vec![self.of_new_plan()],
            false => self.of_old_plan(),
        }
    }

    fn of_old_plan(&self) -> Vec<String> {
        let added =
            (!self.added.is_empty()).then(|| format!("new: {}{}", names(&self.added), self.renamed()));
        let order =
            (!self.reordered.is_empty()).then(|| format!("another order: {}", names(&self.reordered)));
        let changes: Vec<_> = added.into_iter().chain(order).collect();
        let changed = (!changes.is_empty()).then(|| {
            format!(
                "hank.json has changed since the plan of this run was made ({}); the run continues with that plan, and with --replan as hank.json is now",
                changes.join("; ")
            )
        });
        let taken = (!self.taken.is_empty()).then(|| {
            format!(
                "a loop takes its codons from hank.json as it is now; new and run: {}",
                names(&self.taken)
            )
        });
        changed.into_iter().chain(taken).collect()
    }

    fn of_new_plan(&self) -> String {
        let next = match self.next.is_empty() {
            true => "nothing is left to run".to_owned(),
            false => format!("next: {}", names(&self.next)),
        };
        format!("the plan was made again{}; {next}", self.renamed())
    }

    /// A codon with a new name is a new codon.
    fn renamed(&self) -> String {
        match self.gone.is_empty() {
            true => String::new(),
            false => format!(
                " (hank.json does not have {} any more, which ran)",
                names(&self.gone)
            ),
        }
    }
}

/// `a, b, c and 4 more`
fn names(ids: &[CodonId]) -> String {
    let named: Vec<_> = ids.iter().take(MOST_NAMES).map(CodonId::as_str).collect();
    match ids.len() - named.len() {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}
