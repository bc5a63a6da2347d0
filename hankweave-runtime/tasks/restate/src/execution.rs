//! Execution of one task: runs a worker on the task, and returns the worker's steps one by one (TASK-86, TASK-87). `object` records them.
//!
//! The task is stored twice. Restate has the copy that counts, `kept`: its contents are *recorded*. The worker writes into a registry in memory, the
//! `coordinator`, which is ahead of `kept` by at most one report. In order:
//!
//! 1. [`RestateExecution::next`] starts a worker on the task as it is in `kept`.
//! 2. The worker takes a step or completes a codon, sends a [`RecordRequest`] (its report), and waits.
//! 3. `next` returns a codon or step that is not in `kept`. The caller records it, and calls `next` again.
//! 4. When nothing is unrecorded any more, `next` drops the request. This tells the worker that its report is recorded, and the worker continues.

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

/// Reason why this worker cannot continue with a task; Restate retries it, here or elsewhere.
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

/// Execution of a task; dropping it kills its run.
pub(crate) struct RestateExecution {
    engine: Arc<RestateEngine>,
    files: TaskFiles,
    worker: Option<ActiveWorker>,
    /// Completed codons of the task, as its worker has reported them last.
    successes: Vec<CompletedCodon>,
    is_cancelled: bool,
}

/// A worker that has the task.
struct ActiveWorker {
    /// The running worker. Must stand before `report`: fields are dropped in their order, and dropping `report` first would tell a living worker that
    /// its report is recorded.
    handle: AbortOnDropHandle<Result<WorkerSummary, TaskError>>,
    coordinator: Arc<Memory>,
    reports: RecordRequests,
    /// Report for which the worker waits; dropping it lets the worker continue.
    report: Option<RecordRequest>,
    has_ended: bool,
    /// Permit of `RestateEngine::room`, held as long as the worker exists.
    _room: OwnedSemaphorePermit,
}

impl RestateExecution {
    pub(crate) fn new(engine: Arc<RestateEngine>, kept: &RestateTask) -> Self {
        let files = engine.layers.task_of(&kept.task);
        Self {
            engine,
            files,
            worker: None,
            successes: Vec::new(),
            is_cancelled: false,
        }
    }

    /// Waits for the next step that is not in `kept`. The caller records the step in `kept` before it calls again.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost: the state changes between the awaits, and the next call repeats an await that was dropped.
    pub(crate) async fn next(&mut self, kept: &RestateTask) -> Result<DurableStep, Interrupted> {
        loop {
            if let Some(step) = self.unrecorded(kept).await? {
                return Ok(step);
            }
            match &self.worker {
                None => match self.step_before_worker(kept)? {
                    Some(step) => return Ok(step),
                    None => self.start_worker(kept).await?,
                },
                Some(worker) if !worker.has_ended => self.next_report().await?,
                Some(_) => {
                    self.worker = None;
                    match self.why_ended(kept) {
                        // A task that is cancelled needs no files: the next round cancels it without a worker.
                        Interrupted::NotFetched(_) if self.is_cancelled => {}
                        interrupted => return Err(interrupted),
                    }
                }
            }
        }
    }

    /// Returns a completed codon that is not recorded, otherwise the task if it has changed. So all codons are recorded before the step that ends the
    /// task.
    async fn unrecorded(&self, kept: &RestateTask) -> Result<Option<DurableStep>, Interrupted> {
        if let Some(success) = self.successes.iter().find(|success| !kept.has(success)) {
            return Ok(Some(DurableStep::Codon(success.clone())));
        }
        let Some(worker) = &self.worker else {
            return Ok(None);
        };
        let id = self.files.id();
        let task = worker.coordinator.task(id.clone()).await?;
        let Some(changed) = task.filter(|task| task.version > kept.task.version) else {
            return Ok(None);
        };
        let lines = worker.coordinator.log_lines(id.clone(), kept.last_line()).await?;
        Ok(Some(DurableStep::Task(changed, lines)))
    }

    /// Returns the step to record before a worker starts: the end of a cancelled task, or the requeue of a task that is not pending. `None` if a
    /// worker can start.
    fn step_before_worker(&self, kept: &RestateTask) -> Result<Option<DurableStep>, Interrupted> {
        let now = self.engine.world.clock.now();
        match kept.task.record.status() {
            TaskStatus::Pending | TaskStatus::Running if self.is_cancelled => Ok(Some(kept.cancel(now)?)),
            TaskStatus::Pending => Ok(None),
            // A running task has lost its worker. Any other has ended, or its question was answered, and a user called `run`.
            _ => Ok(Some(kept.requeue(now)?)),
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
        let step_reporter = Arc::clone(&engine.step_reporter);
        // `doubting_remote`: after a failure to fetch the run, the worker tries the remote before it takes the task.
        let worker = Worker::counting_in(
            engine.figures(),
            coordinator.clone(),
            engine.layers.clone(),
            engine.world.clone(),
            engine.options.clone(),
        )
        .with_step_reporter(move |row| step_reporter(row))
        .doubting_remote(kept.not_fetched().is_some())
        .with_recorder(recorder);
        let shutdown = engine.shutdown.clone();
        let handle = tokio::spawn(async move { worker.work(&shutdown).await });
        self.worker = Some(ActiveWorker {
            handle: AbortOnDropHandle::new(handle),
            coordinator,
            reports,
            report: None,
            has_ended: false,
            _room: room,
        });
        Ok(())
    }

    /// Lets the worker continue until its next report, and stores the completed codons in that report.
    async fn next_report(&mut self) -> Result<(), Interrupted> {
        let Some(worker) = &mut self.worker else {
            return Ok(());
        };
        worker.next_report().await?;
        if let Some(history) = worker.report.as_ref().and_then(|report| report.history.as_ref()) {
            self.successes = successes(history);
        }
        Ok(())
    }

    /// Returns why a worker has ended though the task has not. Restate then retries by its own policy (TASK-119).
    fn why_ended(&self, kept: &RestateTask) -> Interrupted {
        match (self.engine.shutdown.cause(), kept.not_fetched()) {
            (Some(_), _) => Interrupted::Stopping,
            (None, Some(why)) => Interrupted::NotFetched(why.to_owned()),
            (None, None) => Interrupted::Lost,
        }
    }

    /// Asks the worker to stop the run; without a worker, [`RestateExecution::next`] returns the step that cancels the task.
    pub(crate) async fn cancel(&mut self) -> Result<(), Interrupted> {
        self.is_cancelled = true;
        if let Some(worker) = &self.worker {
            let id = self.files.id().clone();
            worker.coordinator.request_cancel(id, None).await?;
        }
        Ok(())
    }

    /// Stops the run of a task of which nothing can be recorded any more, and waits for its end.
    pub(crate) async fn abandon(&mut self) -> Result<(), Interrupted> {
        self.cancel().await?;
        self.end_worker().await
    }

    /// Writes the recorded status and log lines of an ended task into its files. Its worker may have been lost before doing so.
    pub(crate) async fn finish(&mut self, kept: &RestateTask) -> Result<(), Interrupted> {
        self.end_worker().await?;
        let recorded = Memory::holding(self.engine.world.clock.clone(), &kept.task, kept.log.clone());
        let token = Some(kept.task.fencing_token);
        publish(&recorded, &self.files, &kept.task, token).await?;
        Ok(())
    }

    /// Lets the worker continue to its end, without recording its further reports.
    async fn end_worker(&mut self) -> Result<(), Interrupted> {
        while self.worker.as_ref().is_some_and(|worker| !worker.has_ended) {
            self.next_report().await?;
        }
        self.worker = None;
        Ok(())
    }
}

impl ActiveWorker {
    /// Tells the worker that its last report is recorded, and waits for the next report or the worker's end.
    async fn next_report(&mut self) -> Result<(), Interrupted> {
        // Dropping the request tells the worker.
        self.report = None;
        self.report = self.reports.next().await;
        if self.report.is_some() {
            return Ok(());
        }
        let ended = (&mut self.handle).await;
        self.has_ended = true;
        match ended {
            Ok(summary) => summary.map(drop).map_err(Interrupted::from),
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // The handle was aborted.
            Err(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
