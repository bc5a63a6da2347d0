//! The result of one iteration of a loop.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::policy::{FailureAction, consequence};
use super::{LoopEnd, LoopSignal, LoopStep, advance_loop_at};
use crate::codon::{CodonExecution, LoopCheck, LoopContext, LoopStall};
use crate::cost::{TokenUsage, Usd};
use crate::document::{HankweaveState, PlanEntry};
use crate::hank::{Hank, TerminateOn};
use crate::id::{CodonId, LoopId};
use crate::thread::ThreadTip;

/// An iteration that has ended, with the sums of its codons.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct IterationEnd {
    /// The loop.
    pub loop_id: LoopId,
    /// Counted from 0.
    pub iteration: u32,
    /// How long it took.
    pub duration: Duration,
    /// Cost of the iteration.
    pub cost: Usd,
    /// The tokens that go with the cost.
    pub tokens: TokenUsage,
    /// Whether another follows.
    pub next: NextIteration,
}

/// Whether another iteration follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextIteration {
    /// It does.
    Follows,
    /// None does: a codon failed.
    Failed,
    /// None does: the loop has ended.
    Ended(LoopEnd),
}

/// The end of an iteration, when `ended` was its last codon (STATE-46).
///
/// It is the newest one of the thread that ends in the newest run.
#[must_use]
pub fn iteration_end(state: &HankweaveState, hank: &Hank, ended: &CodonId) -> Option<IterationEnd> {
    let thread = ThreadTip::of(state);
    let newest = thread.newest();
    let newest = newest.filter(|entry| entry.codon.codon_id() == ended)?.codon;
    let context = newest.loop_context().as_ref()?;
    let next = next(state, &thread, hank, newest)?;
    let before = iteration_before(state, ended, context);
    let codons = thread.codons().map(|entry| entry.codon.as_ref());
    let codons = codons.take_while(|codon| Some(codon.codon_id()) != before);
    let is_same = |codon: &&CodonExecution| is_in_iteration(codon.loop_context().as_ref(), context);
    let codons = codons.filter(is_same);
    Some(IterationEnd {
        loop_id: context.loop_id.clone(),
        iteration: context.iteration,
        duration: codons.clone().filter_map(CodonExecution::duration).sum(),
        cost: codons.clone().map(CodonExecution::agent_cost).sum(),
        tokens: codons.map(CodonExecution::agent_tokens).sum(),
        next,
    })
}

/// The last codon of the iteration before the one of `context`, in which `ended` is. It had ended before any codon of the next iteration began.
fn iteration_before<'s>(
    state: &'s HankweaveState,
    ended: &CodonId,
    context: &LoopContext,
) -> Option<&'s CodonId> {
    let mut older = state.execution_plan.range(0..state.planned_at(ended)?).rev();
    let before = older.find(|entry| !is_in_iteration(entry.loop_context.as_ref(), context))?;
    let is_of_loop = |other: &LoopContext| other.loop_id == context.loop_id;
    let is_of_loop = before.loop_context.as_ref().is_some_and(is_of_loop);
    is_of_loop.then_some(&before.codon_id)
}

fn is_in_iteration(place: Option<&LoopContext>, context: &LoopContext) -> bool {
    place.is_some_and(|place| place.loop_id == context.loop_id && place.iteration == context.iteration)
}

/// Returns the effect of the end of `codon` on its iteration, if it ends that as well.
fn next(
    state: &HankweaveState,
    thread: &ThreadTip<'_>,
    hank: &Hank,
    codon: &CodonExecution,
) -> Option<NextIteration> {
    if let CodonExecution::Failed(failed) = codon {
        match consequence(hank, thread, failed) {
            _ if failed.failure_reason.interrupted => return None,
            FailureAction::TryAgain { .. } | FailureAction::WaitForLimit(_) | FailureAction::FallBack => {
                return None;
            }
            FailureAction::Stop => return Some(NextIteration::Failed),
            FailureAction::GoOn => {}
        }
    }
    let position = state.planned_at(codon.codon_id())?;
    match advance_loop_at(hank, &state.execution_plan, position, LoopSignal::of(codon)).ok()? {
        LoopStep::NotInLoop => None,
        // After a rollback the plan still has the iterations that follow.
        LoopStep::MidIteration => {
            let is_last = state.execution_plan.get(position)?.ends_iteration(hank);
            is_last.then_some(NextIteration::Follows)
        }
        LoopStep::Expand(entries, _) => {
            let iteration = |context: &LoopContext| context.iteration;
            let ended = codon.loop_context().as_ref().map(iteration);
            let first = entries.first()?.loop_context.as_ref().map(iteration);
            (first != ended).then_some(NextIteration::Follows)
        }
        LoopStep::DropRest { reason, .. } | LoopStep::Ended { reason, .. } => {
            Some(NextIteration::Ended(reason))
        }
    }
}

impl PlanEntry {
    /// Whether a full context is a success for this codon: its loop repeats until that happens.
    #[must_use]
    pub fn may_exceed_context(&self, hank: &Hank) -> bool {
        let context = self.loop_context.as_ref();
        let found = context.and_then(|context| hank.find_loop(&context.loop_id));
        found.is_some_and(|found| found.terminate_on == TerminateOn::ContextExceeded)
    }
}

impl HankweaveState {
    /// Returns the result of the loop's check after the previous iteration, when `entry` is the first codon of a later one.
    #[must_use]
    pub fn check_before(&self, entry: &PlanEntry) -> Option<LoopCheck> {
        let context = entry.loop_context.as_ref()?;
        let before = context
            .iteration
            .checked_sub(1)
            .filter(|_| context.codon_index_in_loop == 0)?;
        let iteration_of = |codon: &Arc<CodonExecution>| {
            let place = codon.loop_context().as_ref();
            place
                .filter(|place| place.loop_id == context.loop_id)
                .map(|place| place.iteration)
        };
        let codons = self.runs.iter().flat_map(|run| run.codons.iter().rev());
        // A loop without checks would otherwise be walked to its first iteration at each of them.
        let mut codons = codons.take_while(|codon| iteration_of(codon).is_none_or(|known| known >= before));
        codons.find_map(|codon| codon.loop_check().filter(|_| iteration_of(codon) == Some(before)))
    }
}

impl HankweaveState {
    /// Returns how long the loop of `entry` has repeated itself before its iteration, and whether the other codons of that iteration changed nothing.
    #[must_use]
    pub fn stall_before(&self, entry: &PlanEntry) -> (Option<LoopStall>, bool) {
        let Some(context) = &entry.loop_context else {
            return (None, false);
        };
        let thread = ThreadTip::of(self);
        // The newest record of a codon has the number of files that it changed since its start, in all its attempts.
        let mut seen = HashSet::from([entry.codon_id.clone()]);
        let mut changed_nothing = true;
        for codon in thread.codons().map(|entry| entry.codon.as_ref()) {
            let Some(place) = codon
                .loop_context()
                .as_ref()
                .filter(|place| place.loop_id == context.loop_id)
            else {
                return (None, changed_nothing);
            };
            if place.iteration < context.iteration {
                return (codon.loop_stall(), changed_nothing);
            }
            if seen.insert(codon.codon_id().clone()) {
                changed_nothing &= codon.files_changed() == Some(0);
            }
        }
        (None, changed_nothing)
    }
}

impl PlanEntry {
    /// Whether this is the last codon of an iteration.
    #[must_use]
    pub fn ends_iteration(&self, hank: &Hank) -> bool {
        let context = self.loop_context.as_ref();
        let found = context.and_then(|context| Some((hank.find_loop(&context.loop_id)?, context)));
        found.is_some_and(|(found, context)| context.codon_index_in_loop as usize + 1 == found.codons.len())
    }

    /// The command that ends the loop of this codon when it passes, if the codon is the last one of its iteration or `ends_loop` in another way,
    /// and whether no iteration can follow.
    #[must_use]
    pub fn due_check<'h>(&self, hank: &'h Hank, ends_loop: bool) -> Option<(&'h str, bool)> {
        let context = self.loop_context.as_ref()?;
        let found = hank.find_loop(&context.loop_id)?;
        let TerminateOn::UntilCheckPasses { run, .. } = &found.terminate_on else {
            return None;
        };
        let is_last = context.codon_index_in_loop as usize + 1 == found.codons.len();
        let is_over = found
            .most_iterations()
            .is_some_and(|most| context.iteration + 1 >= most);
        (is_last || ends_loop).then_some((run, is_over || ends_loop))
    }
}
