//! What an iteration of a loop came to.

use std::time::Duration;

use super::policy::{Consequence, consequence};
use super::{LoopEnd, LoopStep, Overrun, advance_loop};
use crate::codon::{CodonExecution, LoopContext};
use crate::cost::{TokenUsage, Usd};
use crate::document::{HankweaveState, PlanEntry};
use crate::hank::Hank;
use crate::id::CodonId;
use crate::thread::ExecutionThread;
use crate::wire::Event;

/// The event that closes an iteration, when `ended` was its last codon (STATE-46).
///
/// `thread` ends with that codon. A codon that is tried again, or that was interrupted, ends nothing.
#[must_use]
pub fn iteration_end(
    state: &HankweaveState,
    thread: &ExecutionThread,
    hank: &Hank,
    ended: &CodonId,
) -> Option<Event> {
    let newest = thread
        .codons
        .first()
        .filter(|entry| entry.codon.codon_id() == ended)?;
    let context = newest.codon.loop_context().as_ref()?;
    let End { is_final, reason } = end(state, thread, hank, &newest.codon)?;
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
        cost += codon.codon_cost();
        tokens += codon.codon_tokens();
        duration += codon.duration().unwrap_or_default();
    }
    Some(Event::LoopIterationCompleted {
        loop_id: context.loop_id.clone(),
        iteration: context.iteration,
        duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
        cost_usd: cost,
        tokens_used: tokens.input_tokens.saturating_add(tokens.output_tokens),
        is_final,
        termination_reason: reason.map(str::to_owned),
    })
}

/// How an iteration ended.
struct End {
    is_final: bool,
    /// The documented word for why no other follows, where there is one.
    reason: Option<&'static str>,
}

/// What the end of `codon` means for its iteration, if it ends that.
fn end(state: &HankweaveState, thread: &ExecutionThread, hank: &Hank, codon: &CodonExecution) -> Option<End> {
    let last = |reason| {
        Some(End {
            is_final: true,
            reason,
        })
    };
    if let CodonExecution::Failed(failed) = codon {
        match consequence(hank, thread, failed) {
            _ if failed.failure_reason.interrupted => return None,
            Consequence::TryAgain { .. } | Consequence::WaitForLimit(_) => return None,
            Consequence::Stop => return last(Some("failure")),
            Consequence::GoOn => {}
        }
    }
    match advance_loop(hank, &state.execution_plan, codon.codon_id(), Overrun::of(codon)).ok()? {
        LoopStep::NotInLoop | LoopStep::MidIteration => None,
        LoopStep::Expand(entries, _) => {
            let other = |entry: &PlanEntry| {
                let iteration = entry.loop_context.as_ref().map(|context| context.iteration);
                iteration != codon.loop_context().as_ref().map(|context| context.iteration)
            };
            let next_follows = entries.first().is_some_and(other);
            next_follows.then_some(End {
                is_final: false,
                reason: None,
            })
        }
        LoopStep::DropRest { reason, .. } | LoopStep::Ended { reason, .. } => last(match reason {
            LoopEnd::IterationLimit | LoopEnd::SafetyLimit => Some("iteration_limit"),
            LoopEnd::ContextExceeded => Some("context_exceeded"),
            LoopEnd::BudgetExceeded => None,
        }),
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
