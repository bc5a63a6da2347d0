//! The loop over decisions.

use std::time::Duration;

use hankweave_core::id::CheckpointSha;
use hankweave_core::plan::{
    BlockedBy, Decision, PlanEntry, Retry, checkpoint_patterns, decide, iteration_end,
};
use hankweave_core::state::HankweaveState;
use hankweave_core::thread::{self, ExecutionThread};
use hankweave_core::wire::Event;

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
            Decision::Start(entry) => {
                let rig = context.rig.clone().filter(|_| is_first_of_run(&state));
                run_codon(context, &state, &thread, &entry, rig).await?;
            }
            Decision::Retry(retry) => {
                if patience(context, &retry).await {
                    run_codon(
                        context,
                        &state,
                        &thread,
                        &retry.entry,
                        finished_rig(context, &thread),
                    )
                    .await?;
                }
            }
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

fn is_first_of_run(state: &HankweaveState) -> bool {
    state.runs.front().is_none_or(|run| run.codons.is_empty())
}

/// The rig that the failed try of this run had set up; another try goes on with it ("hank configuration", section 4.1).
fn finished_rig(context: &RunContext, thread: &ExecutionThread) -> Option<CheckpointSha> {
    let failed = thread
        .codons
        .first()
        .filter(|failed| failed.run_id == context.run_id)?;
    failed.codon.rig_setup_checkpoint().cloned()
}

/// Waits until another try is due; says whether it still is.
async fn patience(context: &RunContext, retry: &Retry) -> bool {
    let remaining = retry.remaining(context.world.clock.now());
    let id = &retry.entry.codon_id;
    let which = match retry.number {
        0 => "is run again".to_owned(),
        number => format!("is tried again (retry {number} of {})", retry.most),
    };
    let message = format!("{id} {which} in {}", seconds(remaining));
    context.tell(Event::Info { message }).await;
    // Every arm is cancel safe: all of them only wait.
    tokio::select! {
        () = tokio::time::sleep(remaining) => true,
        () = context.shutdown.requested() => false,
        // The try finds out that nothing can be recorded, and ends the run.
        () = context.degraded() => true,
    }
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

async fn run_codon(
    context: &RunContext,
    state: &HankweaveState,
    thread: &ExecutionThread,
    entry: &PlanEntry,
    finished_rig: Option<CheckpointSha>,
) -> Result<(), RunError> {
    let id = &entry.codon_id;
    let unknown = || RunError::ChangedHank(hankweave_core::plan::ExpandError::UnknownCodon(id.clone()));
    let config = context.hank.codon(id.configured()).ok_or_else(unknown)?;
    let codon = CodonRun {
        run: context,
        entry,
        config,
        session: thread.continuation_session(&state.execution_plan, id).cloned(),
        patterns: without_own_files(checkpoint_patterns(&state.execution_plan, id), &context.own_files),
        finished_rig,
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
