//! What hank.json says by now, beside the plan with which a run began (STATE-45).

use std::fmt;

use super::expand::{ExpandError, loop_of};
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
    /// What a run goes on without, in words.
    #[must_use]
    pub fn notices(&self) -> Vec<String> {
        let new = self
            .added
            .iter()
            .map(|item| format!("{item} is new in hank.json and is not run"));
        let reordered = self
            .reordered
            .then(|| "hank.json has another order, which does not count".to_owned());
        let kept =
            "a run goes on with the plan that it began with, and --new begins with hank.json as it is now";
        new.chain(reordered)
            .map(|change| format!("{change}: {kept}"))
            .collect()
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
