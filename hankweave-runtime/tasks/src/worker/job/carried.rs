//! Transfer of a job's run: fetch from a remote at the start, push to it during the run, and reports to an engine, if the worker has one (TASK-60, TASK-61,
//! TASK-75, TASK-86, TASK-119).

use std::path::Path;

use hankweave_core::document::HankweaveState;
use hankweave_remote::{RemoteError, history};
use hankweave_runtime::ExecutionDir;
use hankweave_runtime::error::chain;

use super::{Job, JobError, JobOutcome};
use crate::layers::{LayerError, TaskLog, WORKSPACE};
use crate::worker::carry::{BackgroundPush, PushTarget, SyncNote, is_temporary};

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
        let target = PushTarget::new(&self.worker.world, url, &self.row, self.token);
        let result = tokio::select! {
            biased;
            () = self.cancel_requested.cancelled() => return Ok(Some(JobOutcome::Cancelled)),
            () = self.shutdown.requested() => return Ok(Some(JobOutcome::Stopped)),
            result = target.fetch(execution) => result,
        };
        match result {
            Ok(None) => {}
            Ok(Some(note)) => self.note(&note, log)?,
            Err(RemoteError::Superseded { .. }) => return Ok(Some(JobOutcome::Lost)),
            Err(error) => {
                let why = format!("the run cannot be fetched: {}", chain(&error));
                return Ok(Some(match is_temporary(&error) {
                    true => JobOutcome::NotFetched(why),
                    false => JobOutcome::NotStarted(why),
                }));
            }
        }
        self.carrier = Some(BackgroundPush::start(target, execution));
        Ok(None)
    }

    /// Pushes the last part of an ended run, and reports its history to the engine. Returns `outcome`, or `Lost` if a later owner has pushed.
    pub(super) async fn push_rest(
        &mut self,
        outcome: JobOutcome,
        log: &mut TaskLog,
    ) -> Result<JobOutcome, JobError> {
        if matches!(outcome, JobOutcome::Lost) {
            // The carrier stays for `Job::work`, which keeps the work on the remote.
            return Ok(outcome);
        }
        let Some(carrier) = &mut self.carrier else {
            self.record_local_history().await;
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
        // No other worker continues a completed task, so the engine gets the history even if the remote lacks a part.
        if matches!(&outcome, JobOutcome::Ended(exit, _) if exit.is_success()) {
            self.record_local_history().await;
        }
        Ok(outcome)
    }

    /// Writes a note about the remote into the log of the task.
    pub(super) fn note(&self, note: &SyncNote, log: &mut TaskLog) -> Result<(), LayerError> {
        log.append(&[self.files.entry(note.level, note.message.clone(), None)])
    }

    /// Waits until an engine, if there is one, has recorded the history of the runs (TASK-86).
    pub(super) async fn record(&mut self, history: HankweaveState) {
        if let Some(recorder) = self.lifecycle.recorder() {
            recorder.record(Some(history)).await;
        }
    }

    /// Records the history on this machine with the engine, unless there is a remote: then a history counts only once the remote has it (TASK-75).
    pub(super) async fn record_local_history(&mut self) {
        if self.lifecycle.recorder().is_none() || self.carrier.is_some() {
            return;
        }
        let world = self.worker.world.clone();
        let dir = ExecutionDir::new(self.files.path().join(WORKSPACE));
        let read = move || history(&world, &dir);
        // An unreadable record is repaired by the next run, and recorded then.
        if let Ok(history) = self.worker.world.blocking.run(read).await {
            self.record(history).await;
        }
    }
}
