//! Iterations of loops: the sums of one that has ended, whether another follows, and what earlier ones have left for a codon.

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
    /// Time that its codons took together.
    pub duration: Duration,
    /// Cost of the iteration.
    pub cost: Usd,
    /// Tokens of the iteration.
    pub tokens: TokenUsage,
    /// Whether another follows.
    pub next: NextIteration,
}

/// Whether another iteration follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextIteration {
    /// Another iteration follows.
    Follows,
    /// None follows: a codon failed.
    Failed,
    /// None follows: the loop has ended.
    Ended(LoopEnd),
}

/// Returns the end of an iteration, if the codon `ended` was the last of it (STATE-46). `ended` must be the newest codon of the thread that ends in the newest
/// run.
#[must_use]
pub fn iteration_end(state: &HankweaveState, hank: &Hank, ended: &CodonId) -> Option<IterationEnd> {
    let thread = ThreadTip::of(state);
    let newest = thread.newest();
    let newest = newest.filter(|entry| entry.codon.codon_id() == ended)?.codon;
    let context = newest.loop_context().as_ref()?;
    let next = next_iteration(state, &thread, hank, newest)?;
    let before = last_codon_before(state, ended, context);
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

/// Returns the last codon of the iteration before that of `context`, which contains `ended`. No codon of the iteration of `context` is older in the thread.
fn last_codon_before<'s>(
    state: &'s HankweaveState,
    ended: &CodonId,
    context: &LoopContext,
) -> Option<&'s CodonId> {
    let mut older = state.execution_plan.range(0..state.planned_at(ended)?).rev();
    let before = older.find(|entry| !is_in_iteration(entry.loop_context.as_ref(), context))?;
    let loop_of_before = before.loop_context.as_ref().map(|other| &other.loop_id);
    (loop_of_before == Some(&context.loop_id)).then_some(&before.codon_id)
}

/// Whether a codon with the context `other` is in the iteration of `context`.
fn is_in_iteration(other: Option<&LoopContext>, context: &LoopContext) -> bool {
    other.is_some_and(|other| other.loop_id == context.loop_id && other.iteration == context.iteration)
}

/// Returns whether another iteration follows, if the end of `codon` is the end of its iteration; `None` if the iteration continues.
fn next_iteration(
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
            FailureAction::Continue => {}
        }
    }
    let position = state.planned_at(codon.codon_id())?;
    match advance_loop_at(hank, &state.execution_plan, position, LoopSignal::of(codon)).ok()? {
        LoopStep::NotInLoop => None,
        // More codons of the loop are planned: of this iteration, or of later ones, which the plan still has after a rollback.
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
        // The search ends at older iterations. Otherwise each iteration of a loop without checks would search back to the first one.
        let mut codons = codons.take_while(|codon| iteration_of(codon).is_none_or(|known| known >= before));
        codons.find_map(|codon| codon.loop_check().filter(|_| iteration_of(codon) == Some(before)))
    }
}

impl HankweaveState {
    /// Returns how long the loop of `entry` had repeated itself before this iteration, and whether the other codons of the iteration have changed nothing.
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

    /// Returns the command whose success ends the loop, and whether no iteration can follow in any case. `None` if no check is due after this codon: a check is
    /// due after the last codon of an iteration, and after one that `ends_loop` in another way.
    #[must_use]
    pub fn due_check<'h>(&self, hank: &'h Hank, ends_loop: bool) -> Option<(&'h str, bool)> {
        let context = self.loop_context.as_ref()?;
        let found = hank.find_loop(&context.loop_id)?;
        let TerminateOn::UntilCheckPasses { run, .. } = &found.terminate_on else {
            return None;
        };
        let is_last = context.codon_index_in_loop as usize + 1 == found.codons.len();
        let is_last_iteration = found
            .most_iterations()
            .is_some_and(|most| context.iteration + 1 >= most);
        (is_last || ends_loop).then_some((run, is_last_iteration || ends_loop))
    }
}
