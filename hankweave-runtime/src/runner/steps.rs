//! The loop over decisions.

use hankweave_core::plan::{BlockedBy, Decision, PlanEntry, checkpoint_patterns, decide, iteration_end};
use hankweave_core::state::HankweaveState;
use hankweave_core::thread::{self, ExecutionThread};

use super::outcome::RunResult;
use super::run::RunError;
use crate::codon::{self, CodonRun, RunContext};
use crate::recovery::without_own_files;

/// Runs codons until nothing is left, something fails, or the run is asked to stop.
pub(super) async fn walk(context: &RunContext) -> Result<RunResult, RunError> {
    loop {
        if let Some(cause) = context.shutdown.cause() {
            return Ok(RunResult::Stopped(cause));
        }
        let state = context.manager.snapshot();
        let thread = thread::build(&state, None, None);
        match decide(&state, &thread, &context.hank) {
            Decision::Start(entry) => run_codon(context, &state, &thread, &entry).await?,
            Decision::Replan(plan) => drop(context.manager.replace_plan(plan).await.await?),
            Decision::Done => return Ok(RunResult::Completed),
            // A codon that was stopped with the run is no failure of its own.
            Decision::Blocked(BlockedBy::FailedCodon(id)) => {
                return Ok(context
                    .shutdown
                    .cause()
                    .map_or(RunResult::Failed(id), RunResult::Stopped));
            }
            Decision::Blocked(BlockedBy::ChangedHank(error)) => return Err(RunError::ChangedHank(error)),
            Decision::Blocked(BlockedBy::MissingParent) => return Err(RunError::MissingParent),
            // Only this loop starts codons, and each has ended before the next decision.
            Decision::Wait => return Err(RunError::CodonLeftOpen),
        }
    }
}

async fn run_codon(
    context: &RunContext,
    state: &HankweaveState,
    thread: &ExecutionThread,
    entry: &PlanEntry,
) -> Result<(), RunError> {
    let id = &entry.codon_id;
    let unknown = || RunError::ChangedHank(hankweave_core::plan::ExpandError::UnknownCodon(id.clone()));
    let config = context.hank.codon(id.configured()).ok_or_else(unknown)?;
    let first_of_run = state.runs.front().is_none_or(|run| run.codons.is_empty());
    let codon = CodonRun {
        run: context,
        entry,
        config,
        session: thread.continuation_session(&state.execution_plan, id).cloned(),
        patterns: without_own_files(checkpoint_patterns(&state.execution_plan, id), &context.own_files),
        finished_rig: context.rig.clone().filter(|_| first_of_run),
    };
    let walked = codon::execute(&codon).await?.into_execution();
    let state = context.manager.snapshot();
    let thread = thread::build(&state, None, None);
    debug_assert!(
        thread
            .codons
            .first()
            .is_some_and(|newest| newest.codon.context_exceeded() || *newest.codon == walked),
        "the typed codon and the recorded one have parted"
    );
    if let Some(event) = iteration_end(&state, &thread, &context.hank, id) {
        context.tell(event).await;
    }
    Ok(())
}
