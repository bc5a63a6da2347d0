//! Execution of one task: its worker, and the worker's results that are not recorded yet (TASK-86, TASK-87).

use std::sync::Arc;

use hankweave_task_model::TaskError;
use hankweave_task_model::task::TaskStatus;
use hankweave_tasks::layers::{LayerError, TaskFiles};
use hankweave_tasks::worker::{Worker, WorkerSummary};
use hankweave_tasks::{Coordinator, Memory, RecordRequest, RecordRequests, Recorder, publish};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::task::AbortOnDropHandle;

use crate::codons::{CompletedCodon, successes};
use crate::engine::RestateEngine;
use crate::kept::{DurableStep, RestateTask};

/// Reason why this worker cannot continue a task. Restate tries again, here or elsewhere.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Interrupted {
    #[error("this worker stops")]
    Stopping,
    #[error("the worker has lost the task")]
    Lost,
    #[error("{0}")]
    NotFetched(String),
    #[error(transparent)]
    Registry(#[from] TaskError),
    #[error("the files of the task do not follow")]
    Files(#[from] LayerError),
}

/// Execution of a task. Dropping it kills its run.
pub(crate) struct RestateExecution {
    engine: Arc<RestateEngine>,
    files: TaskFiles,
    working: Option<ActiveWorker>,
    /// Successes in its runs, as reported by the worker.
    successes: Vec<CompletedCodon>,
    is_cancelled: bool,
}

/// Worker that has the task.
struct ActiveWorker {
    /// Dropped first. A worker that waits for its report to be recorded must not mistake the end of `reports` for the answer.
    worked: AbortOnDropHandle<Result<WorkerSummary, TaskError>>,
    coordinator: Arc<Memory>,
    reports: RecordRequests,
    /// Report that the worker waits for.
    report: Option<RecordRequest>,
    has_ended: bool,
    _room: OwnedSemaphorePermit,
}

impl RestateExecution {
    pub(crate) fn new(engine: Arc<RestateEngine>, kept: &RestateTask) -> Self {
        let files = engine.layers.task_of(&kept.task);
        Self {
            engine,
            files,
            working: None,
            successes: Vec::new(),
            is_cancelled: false,
        }
    }

    /// Returns the next unrecorded step, once there is one. The next call assumes that the caller has recorded it.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub(crate) async fn next(&mut self, kept: &RestateTask) -> Result<DurableStep, Interrupted> {
        loop {
            if let Some(step) = self.unrecorded(kept).await? {
                return Ok(step);
            }
            match &mut self.working {
                Some(working) if working.has_ended => match self.end(kept) {
                    Interrupted::NotFetched(_) if self.is_cancelled => {}
                    interrupted => return Err(interrupted),
                },
                Some(_) => self.wait().await?,
                None => match self.without_worker(kept)? {
                    Some(step) => return Ok(step),
                    None => self.start_worker(kept).await?,
                },
            }
        }
    }

    /// Asks the worker to stop the run. Without a worker the task is cancelled at once.
    pub(crate) async fn cancel(&mut self) -> Result<(), Interrupted> {
        self.is_cancelled = true;
        if let Some(working) = &self.working {
            let id = self.files.id().clone();
            working.coordinator.request_cancel(id, None).await?;
        }
        Ok(())
    }

    /// Stops the run and waits for its end, for a caller that records nothing any more.
    pub(crate) async fn abandon(&mut self) -> Result<(), Interrupted> {
        self.cancel().await?;
        self.end_worker().await
    }

    /// Writes the recorded state to the files of a task that has ended, also if the worker that should have done so no longer exists.
    pub(crate) async fn finish(&mut self, kept: &RestateTask) -> Result<(), Interrupted> {
        self.end_worker().await?;
        let recorded = Memory::holding(self.engine.world.clock.clone(), &kept.task, kept.log.clone());
        let token = Some(kept.task.fencing_token);
        publish(&recorded, &self.files, &kept.task, token).await?;
        Ok(())
    }

    async fn end_worker(&mut self) -> Result<(), Interrupted> {
        while self.working.as_ref().is_some_and(|working| !working.has_ended) {
            self.wait().await?;
        }
        self.working = None;
        Ok(())
    }

    /// Returns the next unrecorded step. Codons come before the step after them, so that none is missing once the task has ended.
    async fn unrecorded(&self, kept: &RestateTask) -> Result<Option<DurableStep>, Interrupted> {
        if let Some(success) = self.successes.iter().find(|success| !kept.has(success)) {
            return Ok(Some(DurableStep::Codon(success.clone())));
        }
        let Some(working) = &self.working else {
            return Ok(None);
        };
        let id = self.files.id();
        let row = working.coordinator.task(id.clone()).await?;
        let Some(row) = row.filter(|row| row.version > kept.task.version) else {
            return Ok(None);
        };
        let lines = working.coordinator.log_lines(id.clone(), kept.last_line());
        Ok(Some(DurableStep::Task(row, lines.await?)))
    }

    /// Waits until the worker has something to record, or has ended.
    async fn wait(&mut self) -> Result<(), Interrupted> {
        let Some(working) = &mut self.working else {
            return Ok(());
        };
        working.wait().await?;
        if let Some(history) = working.report.as_ref().and_then(|report| report.history.as_ref()) {
            self.successes = successes(history);
        }
        Ok(())
    }

    /// Returns the step that the task must take before a worker runs it.
    fn without_worker(&self, kept: &RestateTask) -> Result<Option<DurableStep>, Interrupted> {
        let now = self.engine.world.clock.now();
        match kept.task.record.status() {
            TaskStatus::Pending | TaskStatus::Running if self.is_cancelled => Ok(Some(kept.cancel(now)?)),
            TaskStatus::Pending => Ok(None),
            _ => Ok(Some(kept.wait_again(now)?)),
        }
    }

    async fn start_worker(&mut self, kept: &RestateTask) -> Result<(), Interrupted> {
        let engine = &self.engine;
        let room = tokio::select! {
            () = engine.shutdown.requested() => return Err(Interrupted::Stopping),
            room = Arc::clone(&engine.room).acquire_owned() => room.map_err(|_| Interrupted::Stopping)?,
        };
        let clock = engine.world.clock.clone();
        let coordinator = Arc::new(Memory::holding(clock, &kept.task, kept.log.clone()));
        let (recorder, reports) = Recorder::new();
        let told = Arc::clone(&engine.told);
        let worker = Worker::counting_in(
            engine.figures(),
            coordinator.clone(),
            engine.layers.clone(),
            engine.world.clone(),
            engine.options.clone(),
        )
        .with_step_reporter(move |row| told(row))
        .doubting_remote(kept.not_fetched().is_some())
        .with_recorder(recorder);
        let shutdown = engine.shutdown.clone();
        let worked = tokio::spawn(async move { worker.work(&shutdown).await });
        self.working = Some(ActiveWorker {
            worked: AbortOnDropHandle::new(worked),
            coordinator,
            reports,
            report: None,
            has_ended: false,
            _room: room,
        });
        Ok(())
    }

    /// Returns why there is no further step after the worker has ended. Another call starts a new worker. If the remote does not answer, Restate
    /// waits first (TASK-119).
    fn end(&mut self, kept: &RestateTask) -> Interrupted {
        self.working = None;
        match (self.engine.shutdown.cause(), kept.not_fetched()) {
            (Some(_), _) => Interrupted::Stopping,
            (None, Some(why)) => Interrupted::NotFetched(why.to_owned()),
            (None, None) => Interrupted::Lost,
        }
    }
}

impl ActiveWorker {
    /// Waits until the worker has something to record, or has ended.
    async fn wait(&mut self) -> Result<(), Interrupted> {
        self.report = None;
        self.report = self.reports.next().await;
        if self.report.is_some() {
            return Ok(());
        }
        let worked = (&mut self.worked).await;
        self.has_ended = true;
        match worked {
            Ok(worked) => worked.map(drop).map_err(Interrupted::from),
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
