//! How a codon ends: by what its agent has done, by a limit, or by what interrupted it (RUN-10, RUN-12).

use std::sync::atomic::Ordering;

use hankweave_core::agent::{ExitOutcome, FailureReason, Verdict};
use hankweave_core::codon::{Codon, Complete, CompleteSentinels, Completed, Edge, Fail, Failed, Running};
use hankweave_core::cost::UsageTotals;
use hankweave_core::event::StateEvent;
use hankweave_core::wire::Event;

use super::budget;
use super::context::{CodonEnd, CodonRun, StageResult};
use super::end::{EndDetails, complete, exit_code};
use super::interruption::Interruption;
use super::run::{AgentOutcome, AgentRun};
use super::watchers::HasSentinels;

/// Ends the codon (RUN-10): at once if its agent was stopped; otherwise its sentinels finish first, and an order may meanwhile skip or fail it.
pub(super) async fn finish(
    codon: &CodonRun<'_>,
    mut running: Codon<Running>,
    mut work: AgentRun,
) -> StageResult<CodonEnd> {
    let (exit, stopped) = match &work.outcome {
        AgentOutcome::Ended(exit) | AgentOutcome::Rejected { exit, .. } => (exit.clone(), None),
        AgentOutcome::Stopped(why, exit) => (exit.clone(), Some(why.clone())),
        AgentOutcome::Lost => {
            let reason = FailureReason::unknown(false, "the driver did not tell how the agent ended");
            return Err(codon.fail(running, -1, reason).await);
        }
    };
    settle_costs(codon, &mut running, &exit).await;
    if let Some(why) = stopped {
        let code = exit_code(&exit);
        return Err(codon.end_early(running, code, why).await);
    }
    if !codon.is_watched() {
        return end(codon, running, work, &exit).await;
    }
    codon.allowance.set_agent_cost(exit.usage.cost);
    if work.exceeded(&exit.usage).is_some() {
        codon.allowance.close_at_limit();
    }
    // The sentinels must see the last files of the agent as well.
    codon.run.watch.survey(codon).await;
    let (mut completing, recorded) = codon.step(running, CompleteSentinels {}).await;
    codon.drain(&mut completing, recorded).await;
    match codon.interruption() {
        // An order of a user or a sentinel. A stop of the run only cuts the sentinels short: the agent has finished its work.
        Some(why @ Interruption::Ordered(_)) => Err(codon.end_early(completing, exit_code(&exit), why).await),
        _ => end(codon, completing, work, &exit).await,
    }
}

/// Ends the codon because its work was rejected, or else because of a limit that it reached, or else by the verdict of its agent.
async fn end<S: HasSentinels>(
    codon: &CodonRun<'_>,
    running: Codon<S>,
    mut work: AgentRun,
    exit: &ExitOutcome,
) -> StageResult<CodonEnd>
where
    Complete: Edge<S, To = Completed>,
    Fail: Edge<S, To = Failed>,
{
    let limit = work.exceeded(&exit.usage);
    // If no limit stopped the agent, its own code counts, even 0 without success: its context may be full.
    let code = match limit {
        Some(_) => exit_code(exit),
        None => i64::from(exit.exit.code()),
    };
    if let AgentOutcome::Rejected { reason, exceeded, .. } = work.outcome {
        let notes = exceeded.map(EndDetails::of_budget).unwrap_or_default();
        return Err(codon.fail_with(running, code, reason, notes).await);
    }
    let of_loop = EndDetails {
        loop_check: work.loop_check,
        loop_stall: work.loop_stall,
        ..EndDetails::default()
    };
    if let Some(exceeded) = limit {
        return budget::end(codon, running, exit, (exceeded, work.own_failure), of_loop).await;
    }
    let details = |context_exceeded| EndDetails {
        context_exceeded: context_exceeded && codon.completes_at_full_context(),
        ..of_loop
    };
    match exit.verdict.clone() {
        Verdict::Success => complete(codon, running, exit, details(work.context_was_full)).await,
        Verdict::Failure {
            context_exceeded: true,
            ..
        } if codon.completes_at_full_context() => complete(codon, running, exit, details(true)).await,
        Verdict::Failure { reason, .. } => {
            let reason = codon.with_limit(reason).await;
            Err(codon.fail(running, code, reason).await)
        }
    }
}

/// Replaces the codon's costs so far, a sum over messages, by those of the agent's final report, which also has all output tokens; publishes them
/// if they differ.
pub(super) async fn settle_costs(codon: &CodonRun<'_>, running: &mut Codon<Running>, exit: &ExitOutcome) {
    let UsageTotals {
        tokens,
        cost,
        lower_bound,
        ..
    } = exit.usage;
    let was_lower_bound = codon.cost_is_lower_bound.swap(lower_bound, Ordering::Relaxed);
    if (running.current_cost, running.current_tokens.usage) != (cost, tokens) {
        running.set_current_cost(cost);
        running.set_current_tokens(tokens.into());
        let final_cost = StateEvent::CodonFinalCostSet {
            run_id: codon.run.run_id.clone(),
            codon_id: codon.entry.codon_id.clone(),
            final_cost: cost,
            final_tokens: tokens,
        };
        drop(codon.run.transition(final_cost).await);
    } else if was_lower_bound == lower_bound {
        return;
    }
    let event = Event::TokenUsage {
        codon_id: codon.entry.codon_id.clone(),
        input_tokens: tokens.input_tokens,
        output_tokens: tokens.output_tokens,
        cache_creation_tokens: tokens.cache_creation_tokens,
        cache_read_tokens: tokens.cache_read_tokens,
        total_cost: cost,
        cost_is_lower_bound: codon.published_lower_bound(),
        model_id: None,
        message: None,
        context_tokens: None,
        context_window: None,
    };
    codon.run.publish(event).await;
}
