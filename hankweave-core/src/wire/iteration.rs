//! Makes the event `loop.iteration.completed` of the end of an iteration.

use super::Event;
use crate::plan::{IterationEnd, LoopEnd, NextIteration};

impl From<IterationEnd> for Event {
    fn from(end: IterationEnd) -> Self {
        let tokens = end.tokens;
        Self::LoopIterationCompleted {
            loop_id: end.loop_id,
            iteration: end.iteration,
            duration_ms: u64::try_from(end.duration.as_millis()).unwrap_or(u64::MAX),
            cost_usd: end.cost,
            tokens_used: tokens.input_tokens.saturating_add(tokens.output_tokens),
            is_final: end.next != NextIteration::Follows,
            termination_reason: termination(end.next).map(str::to_owned),
        }
    }
}

/// Returns the documented word for why no iteration follows; `None` if one follows, or if a budget is used up, which has no word. `SafetyLimit`, of a loop that
/// continues until the context is full, is a number of iterations, too.
const fn termination(next: NextIteration) -> Option<&'static str> {
    match next {
        NextIteration::Follows | NextIteration::Ended(LoopEnd::BudgetExceeded) => None,
        NextIteration::Failed => Some("failure"),
        NextIteration::Ended(LoopEnd::IterationLimit | LoopEnd::SafetyLimit) => Some("iteration_limit"),
        NextIteration::Ended(LoopEnd::ContextExceeded) => Some("context_exceeded"),
        NextIteration::Ended(LoopEnd::CheckPassed) => Some("check_passed"),
    }
}
