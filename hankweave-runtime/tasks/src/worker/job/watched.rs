//! Monitoring of the resource usage of a job's run (TASK-110).

use tokio::time::{Instant, sleep_until};

use super::Job;
use crate::layers::{LayerError, TaskLog};
use crate::model::LogLevel;
use crate::worker::resources::{Monitor, Warning};

impl Job {
    /// Returns a monitor for a run that starts now, if the options ask for one.
    pub(super) fn monitor(&self) -> Option<Monitor> {
        let usage = self.worker.figures.usage.clone();
        let start = |watch| Monitor::start(watch, self.row.id().clone(), usage);
        self.worker.options.watch.map(start)
    }

    /// Samples the run's resource usage, and logs warnings.
    pub(super) async fn sample_usage(
        &mut self,
        monitor: &mut Option<Monitor>,
        log: &mut TaskLog,
    ) -> Result<(), LayerError> {
        let (Some(monitor), Some(run)) = (monitor, &self.run) else {
            return Ok(());
        };
        let warnings = monitor.sample(&self.worker.world, run.pid()).await;
        let note = |Warning { message, data }: Warning| {
            tracing::warn!(taskId = %self.row.id(), %data, "{message}");
            self.files.entry(LogLevel::Warning, message, Some(data))
        };
        let lines: Vec<_> = warnings.into_iter().map(note).collect();
        log.append(&lines)
    }
}

/// Waits until `time`; for ever without one.
pub(super) async fn sleep_until_maybe(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
