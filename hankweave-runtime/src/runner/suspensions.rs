//! Records when the process of a run was suspended, such as by Ctrl+Z (S12). That time counts neither as work of codons nor as silence of agents.

use std::convert::Infallible;
use std::sync::Arc;

use hankweave_core::document::RunStatus;
use hankweave_core::wire::Event;

use super::heartbeat::Heartbeat;
use crate::world::suspension::{Preparation, Suspension};

/// Records each suspension once it has ended, until the future is dropped, which loses at most the suspension that has just ended.
pub(super) async fn note(heartbeat: &Heartbeat<'_>) -> Infallible {
    let clock = &heartbeat.possession.world.clock;
    let Some(mut newest) = clock.suspensions() else {
        return std::future::pending().await;
    };
    let lock = Arc::clone(heartbeat.lock);
    // As long as this value lives, the function is called just before each suspension, and notes it in the lock file for other processes.
    let _preparation = Preparation::new(move |up| {
        if let Err(error) = lock.note_suspension(up) {
            tracing::warn!(error = %crate::error::chain(&error), "the suspension could not be noted");
        }
    });
    loop {
        if newest.changed().await.is_err() {
            return std::future::pending().await;
        }
        let ended = *newest.borrow_and_update();
        if let Some(suspension) = ended {
            record(heartbeat, suspension).await;
        }
    }
}

async fn record(heartbeat: &Heartbeat<'_>, suspension: Suspension) {
    let manager = &heartbeat.possession.manager;
    let state = manager.snapshot();
    let open = state.runs.front().filter(|run| run.status == RunStatus::Running);
    if let Some(run) = open {
        let event = Event::RunContinued {
            run_id: run.run_id.clone(),
            suspended_at: suspension.from,
            suspended_ms: u64::try_from(suspension.length.as_millis()).unwrap_or(u64::MAX),
        };
        // A journal that cannot be written shows up in the next transition.
        drop(manager.record(event).await);
    }
    heartbeat.lock.exclude_suspension(suspension.length);
    heartbeat.refresh().await;
}
