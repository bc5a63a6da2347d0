//! What an iteration of a loop came to.

use super::{LoopEnd, LoopStep, PlanEntry, advance_loop};
use crate::cost::{TokenUsage, Usd};
use crate::hank::Hank;
use crate::id::CodonId;
use crate::state::HankweaveState;
use crate::thread::ExecutionThread;
use crate::wire::Event;

/// The event that closes an iteration, when `ended` was its last codon ("runtime behaviour", section 7).
///
/// `thread` ends with that codon.
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
    let termination_reason = match advance_loop(
        hank,
        &state.execution_plan,
        ended,
        newest.codon.context_exceeded(),
    )
    .ok()?
    {
        LoopStep::NotInLoop | LoopStep::MidIteration => return None,
        LoopStep::Expand(..) => None,
        LoopStep::DropRest { .. } => Some("context_exceeded"),
        LoopStep::Ended { reason, .. } => Some(match reason {
            LoopEnd::IterationLimit | LoopEnd::SafetyLimit => "iteration_limit",
            LoopEnd::ContextExceeded => "context_exceeded",
        }),
    };
    let codons = thread
        .codons
        .iter()
        .map(|entry| entry.codon.as_ref())
        .filter(|codon| {
            let same = |other: &super::LoopContext| {
                other.loop_id == context.loop_id && other.iteration == context.iteration
            };
            codon.loop_context().as_ref().is_some_and(same)
        });
    let (mut cost, mut tokens, mut begin, mut end) = (Usd::ZERO, TokenUsage::ZERO, None, None);
    for codon in codons {
        cost += codon.codon_cost();
        tokens += codon.codon_tokens();
        begin = Some(*codon.start_time());
        end = end.or(codon.end_time());
    }
    let duration = begin
        .zip(end)
        .map_or(0, |(begin, end)| end.since(begin).as_millis());
    Some(Event::LoopIterationCompleted {
        loop_id: context.loop_id.clone(),
        iteration: context.iteration,
        duration_ms: u64::try_from(duration).unwrap_or(u64::MAX),
        cost_usd: cost,
        tokens_used: tokens.input_tokens.saturating_add(tokens.output_tokens),
        is_final: termination_reason.is_some(),
        termination_reason: termination_reason.map(str::to_owned),
    })
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

/// Every pattern of `checkpointedFiles` from the first entry of the plan to the entry `id`, each once
/// ("hank configuration", section 5).
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
