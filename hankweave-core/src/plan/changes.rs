//! Compares hank.json with the plan of a run that continues: what has changed since the plan was made, with notices for the user (STATE-45).

use std::collections::HashSet;

use super::expand::ExpandError;
use super::onward::ResumePoint;
use super::replan::{HankPlaces, ahead, replan};
use crate::document::{HankweaveState, PlanEntry, RunStatus, SharedIter, SharedList};
use crate::hank::Hank;
use crate::id::{CodonId, LoopId};
use crate::thread::ExecutionThread;

/// Greatest number of codons that one notice names.
const MOST_NAMES: usize = 5;

/// How a hank differs from the stored plan of a run that continues.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HankChanges {
    /// Why the rest of the plan cannot be done with this hank.
    pub misfits: Vec<ExpandError>,
    /// Next codons of the plan, in order, when every codon completes.
    pub next: Vec<CodonId>,
    /// Codons among `next` that a loop has taken into an iteration that was planned without them.
    pub taken: Vec<CodonId>,
    /// Codons that a new plan would run in addition to `next`.
    pub added: Vec<CodonId>,
    /// All next codons of a new plan, if it would run the common ones in another order; else empty.
    pub reordered: Vec<CodonId>,
    /// Codons that have run and that the hank does not have any more.
    pub gone: Vec<CodonId>,
    /// Whether the plan was just made again from the hank.
    pub is_new: bool,
}

/// Compares `hank` with the plan of `state`, for a run that continues at `resume_point`. Without a plan nothing has changed.
///
/// `is_new` means that the plan was just made again from the hank.
pub(super) fn hank_changes(
    state: &HankweaveState,
    thread: &ExecutionThread,
    hank: &Hank,
    resume_point: &ResumePoint,
    is_new: bool,
) -> HankChanges {
    let plan = &state.execution_plan;
    if plan.is_empty() {
        return HankChanges::default();
    }
    let (ran, rest) = (
        plan.range(0..resume_point.kept),
        plan.range(resume_point.kept..plan.len()),
    );
    let upcoming = ahead(hank, thread, plan, resume_point);
    let next = ids(&upcoming);
    let places = HankPlaces::of(hank);
    let is_missing = |entry: &&PlanEntry| !places.has(entry);
    let mut misfits: Vec<_> = rest.clone().filter(is_missing).map(removed).collect();
    let last = ran.clone().next_back();
    let is_over = has_ended(state, thread, last, rest);
    // With a new plan, or after the end of the loop, it does not matter whether the loop would continue.
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
    if let Ok(new_plan) = replan(state, thread, hank, resume_point) {
        let new_next = ids(&ahead(hank, thread, &new_plan, resume_point));
        changes.added = without(&new_next, &next);
        let dropped = without(&next, &new_next);
        if without(&new_next, &changes.added) != without(&next, &dropped) {
            changes.reordered = new_next;
        }
    }
    changes.taken = taken_codons(plan, &upcoming, last.filter(|_| is_over && !is_new));
    changes.next = next;
    changes
}

/// Returns the upcoming codons that a loop takes from the hank although the plan lacks them: those of an iteration that is planned, and those of the loop that
/// had ended with the entry `ended` and continues now. `ended` is `None` if no loop had ended, and with a new plan.
fn taken_codons(
    plan: &SharedList<PlanEntry>,
    upcoming: &[PlanEntry],
    ended: Option<&PlanEntry>,
) -> Vec<CodonId> {
    let planned: HashSet<&CodonId> = plan.iter().map(|entry| &entry.codon_id).collect();
    let iterations: HashSet<_> = plan.iter().filter_map(iteration).collect();
    let ended = ended.and_then(loop_of);
    let is_taken = |entry: &&PlanEntry| {
        let is_reopened = || ended.is_some() && loop_of(entry) == ended;
        let is_in_known_iteration =
            || iteration(entry).is_some_and(|iteration| iterations.contains(&iteration));
        !planned.contains(&entry.codon_id) && (is_reopened() || is_in_known_iteration())
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

/// Returns the error for an entry that the hank no longer has.
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

/// Returns whether the loop of `last`, the newest entry that is done, had ended: the run is complete, or the next entry of the plan is outside of the loop and
/// has started. A next entry inside the loop proves nothing, even if it has started and was interrupted.
fn has_ended(
    state: &HankweaveState,
    thread: &ExecutionThread,
    last: Option<&PlanEntry>,
    mut rest: SharedIter<'_, PlanEntry>,
) -> bool {
    // With a pending rollback, the next run does not continue at the end of the newest run.
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

/// Returns `ids` without those that are among `others`.
fn without(ids: &[CodonId], others: &[CodonId]) -> Vec<CodonId> {
    ids.iter().filter(|id| !others.contains(id)).cloned().collect()
}

impl HankChanges {
    /// Whether a plan made again would differ.
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
            (!self.added.is_empty()).then(|| format!("new: {}{}", names(&self.added), self.note_of_gone()));
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
        format!("the plan was made again{}; {next}", self.note_of_gone())
    }

    /// Returns a note that names the codons that ran and are gone; empty without any. It explains a codon that the user only renamed: that runs again, as a new
    /// codon.
    fn note_of_gone(&self) -> String {
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
