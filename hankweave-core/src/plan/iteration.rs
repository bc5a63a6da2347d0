//! What an iteration of a loop came to.

use std::time::Duration;

use super::policy::{Consequence, consequence};
use super::{LoopEnd, LoopStep, Overrun, advance_loop};
use crate::codon::{CodonExecution, LoopContext};
use crate::cost::{TokenUsage, Usd};
use crate::document::{HankweaveState, PlanEntry};
use crate::hank::Hank;
use crate::id::{CodonId, LoopId};
use crate::thread::ExecutionThread;

/// An iteration that has ended, with what its codons came to.
#[derive(Debug, Clone, PartialEq)]
pub struct IterationEnd {
    /// The loop.
    pub loop_id: LoopId,
    /// Counted from 0.
    pub iteration: u32,
    /// How long it took.
    pub duration: Duration,
    /// What it cost.
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

/// What the iteration came to, when `ended` was its last codon (STATE-46).
///
/// `thread` ends with that codon.
#[must_use]
pub fn iteration_end(
    state: &HankweaveState,
    thread: &ExecutionThread,
    hank: &Hank,
    ended: &CodonId,
) -> Option<IterationEnd> {
    let newest = thread
        .codons
        .first()
        .filter(|entry| entry.codon.codon_id() == ended)?;
    let context = newest.codon.loop_context().as_ref()?;
    let next = next(state, thread, hank, &newest.codon)?;
    let codons = thread
        .codons
        .iter()
        .map(|entry| entry.codon.as_ref())
        .filter(|codon| {
            let same = |other: &LoopContext| {
                other.loop_id == context.loop_id && other.iteration == context.iteration
            };
            codon.loop_context().as_ref().is_some_and(same)
        });
    let (mut cost, mut tokens, mut duration) = (Usd::ZERO, TokenUsage::ZERO, Duration::ZERO);
    for codon in codons {
        cost += codon.agent_cost();
        tokens += codon.agent_tokens();
        duration += codon.duration().unwrap_or_default();
    }
    Some(IterationEnd {
        loop_id: context.loop_id.clone(),
        iteration: context.iteration,
        duration,
        cost,
        tokens,
        next,
    })
}

/// What the end of `codon` means for its iteration, if it ends that.
fn next(
    state: &HankweaveState,
    thread: &ExecutionThread,
    hank: &Hank,
    codon: &CodonExecution,
) -> Option<NextIteration> {
    if let CodonExecution::Failed(failed) = codon {
        match consequence(hank, thread, failed) {
            _ if failed.failure_reason.interrupted => return None,
            Consequence::TryAgain { .. } | Consequence::WaitForLimit(_) => return None,
            Consequence::Stop => return Some(NextIteration::Failed),
            Consequence::GoOn => {}
        }
    }
    match advance_loop(hank, &state.execution_plan, codon.codon_id(), Overrun::of(codon)).ok()? {
        LoopStep::NotInLoop | LoopStep::MidIteration => None,
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
    /// Whether running out of context is a good end for this codon: its loop goes on until that happens.
    #[must_use]
    pub fn may_exceed_context(&self, hank: &Hank) -> bool {
        self.loop_context
            .as_ref()
            .and_then(|context| hank.find_loop(&context.loop_id))
            .is_some_and(|found| found.terminate_on == crate::hank::TerminateOn::ContextExceeded)
    }
}

/// Every pattern of `checkpointedFiles` from the first entry of the plan to the entry `id`, each once (HANK-19).
#[must_use]
pub fn checkpoint_patterns(plan: &[PlanEntry], id: &CodonId) -> Vec<String> {
    let end = plan
        .iter()
        .position(|entry| entry.codon_id == *id)
        .map_or(plan.len(), |index| index + 1);
    let mut patterns: Vec<String> = Vec::new();
    for pattern in plan[..end]
        .iter()
        .flat_map(|entry| entry.codon.checkpointed_files())
    {
        if !patterns.iter().any(|known| known == pattern) {
            patterns.push(pattern.to_owned());
        }
    }
    patterns
}
