//! Periodic removal of expired locks (TASK-92).

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::Locks;

/// Interval of the removals.
const EVERY: Duration = Duration::from_secs(300);

/// Background task that removes expired locks, until it is stopped.
#[derive(Debug)]
#[must_use = "its owner stops it"]
pub struct Cleaner {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Locks {
    /// Removes expired locks every five minutes, the first time now.
    pub fn start_cleaner(&self) -> Cleaner {
        let (locks, stop) = (self.clone(), CancellationToken::new());
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            stopped.run_until_cancelled(locks.clean_for_ever()).await;
        });
        Cleaner { stop, task }
    }

    async fn clean_for_ever(&self) {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            match self.0.coordinator.clean_up().await {
                Ok(0) => {}
                Ok(removed) => {
                    self.metrics().expired.add(removed);
                    tracing::debug!(removed, "expired locks were removed");
                }
                Err(error) => tracing::warn!(%error, "expired locks were not removed; trying again"),
            }
        }
    }
}

impl Cleaner {
    /// Stops the background task and waits for its end.
    pub async fn stop(self) {
        self.stop.cancel();
        // The background task has no result.
        let _ = self.task.await;
    }
}
