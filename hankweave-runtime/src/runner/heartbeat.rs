//! Keeps the lock file of a run, `server.lock`, up to date (L2): other processes read from it whether the run lives, where its server is and what it does.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hankweave_core::discovery::Activity;

use crate::instance_lock::{InstanceLock, LockError};
use crate::recovery::LockedExecution;
use crate::shutdown::{Shutdown, StopCause};

/// Interval at which the lock file is refreshed (L2). The last work of a killed run is known to this precision.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(5);

/// Writes the lock file.
pub(super) struct Heartbeat<'a> {
    pub(super) lock: &'a Arc<InstanceLock>,
    pub(super) possession: &'a LockedExecution,
    pub(super) shutdown: &'a Shutdown,
    /// Address for clients, if the run has a server.
    pub(super) server: Option<SocketAddr>,
}

impl Heartbeat<'_> {
    /// Refreshes the lock file at each interval, and as soon as the run is asked to stop. Ends only when it is dropped, which loses nothing.
    pub(super) async fn run(&self) -> Infallible {
        let mut interval = tokio::time::interval(HEARTBEAT_INTERVAL);
        let (mut stopped, mut is_stopping) = (pin!(self.shutdown.requested()), false);
        loop {
            tokio::select! {
                _ = interval.tick() => {}
                () = &mut stopped, if !is_stopping => {
                    is_stopping = true;
                    self.lock.set_stopping();
                }
            }
            self.refresh().await;
        }
    }

    /// Sets the activity of the run and writes it to the lock file.
    pub(super) async fn set_activity(&self, activity: Option<Activity>) {
        self.lock.set_activity(activity);
        self.refresh().await;
    }

    /// Writes the lock file. When another process has written it, the directory is no longer ours, and the run
    /// is stopped.
    pub(super) async fn refresh(&self) {
        let run = self.possession.manager.snapshot().current_run_id.clone();
        let (lock, server) = (Arc::clone(self.lock), self.server);
        let beat = move || lock.heartbeat(server, run.as_ref());
        match self.possession.world.blocking.run(beat).await {
            Ok(()) => {}
            Err(error @ LockError::TakenOver { .. }) => {
                tracing::error!(error = %crate::error::chain(&error), "the run is stopped");
                self.shutdown.request(StopCause::Request);
            }
            Err(error) => tracing::warn!(error = %crate::error::chain(&error), "no heartbeat"),
        }
    }
}
