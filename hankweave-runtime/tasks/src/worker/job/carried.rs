//! Fetching of a job's run from a remote, pushing to it, and the records that an engine keeps of the run (TASK-60, TASK-61, TASK-75, TASK-86,
//! TASK-119).

use std::path::Path;

use hankweave_core::document::HankweaveState;
use hankweave_remote::{RemoteError, history};
use hankweave_runtime::ExecutionDir;
use hankweave_runtime::error::chain;

use super::{Job, JobError, JobOutcome};
use crate::layers::{LayerError, TaskLog, WORKSPACE};
use crate::worker::carry::{BackgroundPush, PushTarget, SyncNote, is_passing};

impl Job {
    /// Fetches the work of other machines for the task (TASK-61), and starts pushing the work of this one. Returns an outcome if the job must end at
    /// once.
    pub(super) async fn fetch_progress(
        &mut self,
        execution: &Path,
        log: &mut TaskLog,
    ) -> Result<Option<JobOutcome>, JobError> {
        let Some(url) = &self.worker.options.remote else {
            return Ok(None);
        };
        let route = PushTarget::new(&self.worker.world, url, &self.row, self.token);
        let arrived = tokio::select! {
            biased;
            () = self.called_off.cancelled() => return Ok(Some(JobOutcome::CalledOff)),
            () = self.shutdown.requested() => return Ok(Some(JobOutcome::Stopped)),
            arrived = route.arrive(execution) => arrived,
        };
        match arrived {
            Ok(None) => {}
            Ok(Some(news)) => self.note(&news, log)?,
            Err(RemoteError::Superseded { .. }) => return Ok(Some(JobOutcome::Lost)),
            Err(error) => {
                let why = format!("the run cannot be fetched: {}", chain(&error));
                return Ok(Some(match is_passing(&error) {
                    true => JobOutcome::NotFetched(why),
                    false => JobOutcome::NotStarted(why),
                }));
            }
        }
        self.carrier = Some(BackgroundPush::start(route, execution));
        Ok(None)
    }

    /// Pushes the rest of an ended run. If a later owner has pushed, the task is lost.
    pub(super) async fn carried(
        &mut self,
        outcome: JobOutcome,
        log: &mut TaskLog,
    ) -> Result<JobOutcome, JobError> {
        if matches!(outcome, JobOutcome::Lost) {
            return Ok(outcome);
        }
        let Some(carrier) = &mut self.carrier else {
            self.record_what_is_here().await;
            return Ok(outcome);
        };
        let finished = carrier.finish().await;
        self.carrier = None;
        for note in finished.notes {
            self.note(&note, log)?;
        }
        log.sync()?;
        if finished.has_later_owner {
            return Ok(JobOutcome::Lost);
        }
        if let Some(history) = finished.pushed {
            self.record(history).await;
        }
        // A completed task is not taken over, so the remote need not have all of it.
        if matches!(&outcome, JobOutcome::Ended(exit, _) if exit.is_success()) {
            self.record_what_is_here().await;
        }
        Ok(outcome)
    }

    /// Writes a note about the remote into the log of the task.
    pub(super) fn note(&self, news: &SyncNote, log: &mut TaskLog) -> Result<(), LayerError> {
        log.append(&[self.files.entry(news.level, news.message.clone(), None)])
    }

    /// Waits until an engine, if there is one, has recorded the history of the runs (TASK-86).
    pub(super) async fn record(&mut self, history: HankweaveState) {
        if let Some(recorder) = self.lifecycle.recorder() {
            recorder.record(Some(history)).await;
        }
    }

    /// Records the state on this machine, unless it counts only once a remote has it (TASK-75).
    pub(super) async fn record_what_is_here(&mut self) {
        if self.lifecycle.recorder().is_none() || self.carrier.is_some() {
            return;
        }
        let world = self.worker.world.clone();
        let dir = ExecutionDir::new(self.files.path().join(WORKSPACE));
        let look = move || history(&world, &dir);
        // An unreadable record is repaired by the next run, and recorded then.
        if let Ok(history) = self.worker.world.blocking.run(look).await {
            self.record(history).await;
        }
    }
}
