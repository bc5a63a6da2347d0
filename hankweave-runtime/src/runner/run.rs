//! A run from its first record to its last.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hankweave_core::event::StateEvent;
use hankweave_core::plan::ExpandError;
use hankweave_core::run::{Complete, Fail, Run, Running};
use hankweave_core::wire::{Event, IdleReason};

use super::begin::begin;
use super::outcome::{RunOutcome, RunResult};
use super::rollback::RollbackError;
use super::steps::walk;
use crate::checkpoint::CheckpointError;
use crate::codon::RunContext;
use crate::instance_lock::{InstanceLock, LockError};
use crate::recovery::{Opened, Possession};
use crate::shutdown::{Shutdown, StopCause};
use crate::state_manager::{PersistenceError, TransitionError};

/// How often the lock file is refreshed ("runtime behaviour", section 4).
const HEARTBEAT: Duration = Duration::from_secs(30);

/// A run that could not go on for reasons other than its codons.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A step could not be recorded.
    #[error("failed to record what happened")]
    Record(#[from] TransitionError),
    /// The last save failed.
    #[error("failed to save the state at the end")]
    Save(#[source] Arc<PersistenceError>),
    /// The first checkpoint could not be made.
    #[error("failed to make the first checkpoint")]
    Checkpoint(#[source] CheckpointError),
    /// The files could not be taken back, or nobody knows where to go on.
    #[error(transparent)]
    Rollback(#[from] RollbackError),
    /// hank.json was changed so that it no longer fits the recorded plan.
    #[error("hank.json no longer fits the recorded plan")]
    ChangedHank(#[source] ExpandError),
    /// The newest run continues one that is not in the document.
    #[error("the newest run continues a run that state.json does not hold, so what comes next is unknown")]
    MissingParent,
    /// A bug of ours.
    #[error("a codon was left open")]
    CodonLeftOpen,
}

/// Begins, walks and closes one run, then releases the directory.
pub(crate) async fn run(
    opened: Opened,
    lock: InstanceLock,
    shutdown: Shutdown,
) -> Result<RunOutcome, RunError> {
    let lock = Arc::new(lock);
    // The heart beats as long as the run lives and has nothing to lose when it stops.
    let result = tokio::select! {
        result = serve(&opened, shutdown.clone()) => result,
        never = beat(&lock, &opened.possession, &shutdown) => match never {},
    };
    let saved = opened.possession.release(lock).await;
    let outcome = result?;
    saved.map_err(RunError::Save)?;
    Ok(outcome)
}

async fn serve(opened: &Opened, shutdown: Shutdown) -> Result<RunOutcome, RunError> {
    let possession = &opened.possession;
    let Some(begun) = begin(opened).await? else {
        return Ok(RunOutcome::nothing_to_do(&possession.manager.snapshot()));
    };
    let context = RunContext {
        world: possession.world.clone(),
        dir: possession.dir.clone(),
        loaded: opened.loaded.clone(),
        hank: opened.hank.clone(),
        drivers: opened.drivers.clone(),
        manager: possession.manager.clone(),
        checkpoints: possession.checkpoints.clone(),
        shutdown,
        options: opened.options.clone(),
        own_files: opened.own_files.clone(),
        branch: format!("run-{}", begun.run.run_id),
        run_id: begun.run.run_id.clone(),
        tip: Mutex::new(begun.base),
        rig: begun.rig,
    };
    let result = walk(&context).await;
    close(&context, begun.run, &result).await?;
    let result = result?;
    Ok(RunOutcome::of(
        &context.run_id,
        result,
        &possession.manager.snapshot(),
    ))
}

/// Tells in `server.lock` which run is served and that its server lives.
///
/// A file that another server wrote means that the directory is no longer ours: the run is stopped.
async fn beat(lock: &Arc<InstanceLock>, possession: &Possession, shutdown: &Shutdown) -> Infallible {
    let mut interval = tokio::time::interval(HEARTBEAT);
    loop {
        interval.tick().await;
        let run = possession.manager.snapshot().current_run_id.clone();
        let lock = Arc::clone(lock);
        let beat = move || lock.heartbeat(None, run.as_ref());
        match possession.world.blocking.run(beat).await {
            Ok(()) => {}
            Err(error @ LockError::TakenOver { .. }) => {
                tracing::error!(error = %crate::error::chain(&error), "the run is stopped");
                shutdown.request(StopCause::Request);
                return std::future::pending().await;
            }
            Err(error) => tracing::warn!(error = %crate::error::chain(&error), "no heartbeat"),
        }
    }
}

/// The last record of the run, whatever became of it.
async fn close(
    context: &RunContext,
    run: Run<Running>,
    result: &Result<RunResult, RunError>,
) -> Result<(), RunError> {
    let end_time = context.world.clock.now();
    let closing = match result {
        Ok(RunResult::Completed | RunResult::NothingToDo) => run.step(Complete { end_time }).event,
        Ok(RunResult::Failed(_) | RunResult::Stopped(_))
        | Err(RunError::ChangedHank(_) | RunError::MissingParent) => run.step(Fail { end_time }).event,
        // What could not be recorded before cannot be recorded now.
        Err(_) => return Ok(()),
    };
    let closing = StateEvent::run_ended(context.run_id.clone(), &closing, None);
    context.manager.transition(closing).await.await?;
    if let Ok(RunResult::Completed) = result {
        let message = "every codon of the plan has ended".to_owned();
        context
            .tell(Event::ServerIdle {
                reason: IdleReason::AllCodonsCompleted,
                message,
            })
            .await;
    }
    Ok(())
}
