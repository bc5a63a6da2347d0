//! What hank.json says by now, beside the plan with which a run began (STATE-45).

use super::expand::ExpandError;
use super::replan::{Newest, PlannedItem, kept, replan};
use crate::document::{HankweaveState, PlanEntry};
use crate::hank::Hank;
use crate::id::CodonId;
use crate::thread::{ExecutionThread, Recovery};

/// How many codons are named in one notice.
const MOST_NAMES: usize = 5;

/// How a hank differs from the stored plan of a run that goes on.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HankChanges {
    /// Why the rest of the plan cannot be done with it.
    pub misfits: Vec<ExpandError>,
    /// The codons that a plan made anew has and this one lacks, in their order: none of them runs.
    pub added: Vec<CodonId>,
    /// The codons that are still to be run, when the hank has them in another order.
    pub reordered: Vec<CodonId>,
    /// What stands in front of what has run, and never ran.
    pub passed: Vec<String>,
    /// The codons and loops that have run and that the hank does not have any more.
    pub gone: Vec<String>,
    /// What is still to be run by the plan.
    pub next: Vec<CodonId>,
}

/// Compares `hank` with the plan of `state`, as a run would go on at the end of `thread`, with `recovery` if somebody has chosen one. Without a plan nothing
/// has changed.
#[must_use]
pub fn hank_changes(
    state: &HankweaveState,
    thread: &ExecutionThread,
    hank: &Hank,
    recovery: Option<Recovery>,
) -> HankChanges {
    let plan = &state.execution_plan;
    if plan.is_empty() {
        return HankChanges::default();
    }
    let kept = kept(state, thread, Newest::of(state, thread, hank, recovery));
    let (ran, rest) = plan.split_at(kept);
    let is_removed = |entry: &&PlanEntry| hank.codon(entry.codon_id.configured()).is_none();
    let removed = rest.iter().filter(is_removed);
    let written: Vec<_> = hank.items.iter().map(PlannedItem::of_hank).collect();
    let mut gone: Vec<_> = ran.iter().map(PlannedItem::of_plan).collect();
    gone.dedup();
    gone.retain(|item| !written.contains(item));
    let mut changes = HankChanges {
        misfits: removed
            .map(|entry| ExpandError::RemovedCodon(entry.codon_id.clone()))
            .collect(),
        gone: gone.iter().map(ToString::to_string).collect(),
        next: ids(rest).cloned().collect(),
        ..HankChanges::default()
    };
    if let Ok(anew) = replan(state, thread, hank, recovery) {
        let follows = &anew[kept..];
        let lacks = |entries: &[PlanEntry], id: &CodonId| !ids(entries).any(|known| known == id);
        changes.added = ids(follows).filter(|id| lacks(rest, id)).cloned().collect();
        let ours = ids(rest).filter(|id| !lacks(follows, id));
        if !ids(follows).filter(|id| !lacks(rest, id)).eq(ours) {
            changes.reordered = ids(follows).cloned().collect();
        }
        let is_passed = |item: &&PlannedItem<'_>| {
            let mut known = anew.iter().chain(plan.iter()).map(PlannedItem::of_plan);
            !known.any(|known| known == **item)
        };
        changes.passed = written
            .iter()
            .filter(is_passed)
            .map(ToString::to_string)
            .collect();
    }
    changes
}

fn ids(entries: &[PlanEntry]) -> impl Iterator<Item = &CodonId> {
    entries.iter().map(|entry| &entry.codon_id)
}

impl HankChanges {
    /// Whether a plan made anew is another one.
    #[must_use]
    pub fn can_be_taken_over(&self) -> bool {
        !(self.misfits.is_empty() && self.added.is_empty() && self.reordered.is_empty())
    }

    /// What to tell somebody whose run goes on with the plan of old.
    #[must_use]
    pub fn notices(&self) -> Vec<String> {
        let added =
            (!self.added.is_empty()).then(|| format!("new: {}{}", names(&self.added), self.renamed()));
        let order =
            (!self.reordered.is_empty()).then(|| format!("another order: {}", names(&self.reordered)));
        let changes: Vec<_> = added.into_iter().chain(order).collect();
        let changed = (!changes.is_empty()).then(|| {
            format!(
                "hank.json has changed since the plan of this run was made ({}); the run goes on with that plan, and with --replan as hank.json is now",
                changes.join("; ")
            )
        });
        changed.into_iter().chain(self.out_of_reach()).collect()
    }

    /// What to tell somebody whose run goes on with a plan made anew.
    #[must_use]
    pub fn of_new_plan(&self) -> Vec<String> {
        let next = match self.next.is_empty() {
            true => "nothing is left to run".to_owned(),
            false => format!("next: {}", names(&self.next)),
        };
        let planned = format!("the plan was made anew{}; {next}", self.renamed());
        std::iter::once(planned).chain(self.out_of_reach()).collect()
    }

    /// A codon with a new name is a new codon.
    fn renamed(&self) -> String {
        match self.gone.is_empty() {
            true => String::new(),
            false => format!(
                " ({} ran, and hank.json does not have that any more)",
                self.gone.join(", ")
            ),
        }
    }

    fn out_of_reach(&self) -> Option<String> {
        (!self.passed.is_empty()).then(|| {
            format!(
                "hank.json has {} in front of what has run; to run that, go back in front of it with `rollback`, then run with --replan",
                self.passed.join(", ")
            )
        })
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
