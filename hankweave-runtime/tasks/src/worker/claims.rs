//! Loop of a worker: updates files of lost workers, treats orphans, claims tasks, and starts a [`Job`] for each; at the end it stops its jobs in order
//! (TASK-55, TASK-57, TASK-72, TASK-74).

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hankweave_core::id::TaskId;
use hankweave_runtime::Shutdown;
use hankweave_runtime::world::World;
use hankweave_task_model::registry::TaskRow;
use hankweave_task_model::{Holder, TaskError};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::carry::PushTarget;
use super::job::{Job, JobEnd};
use super::metrics::{Metrics, WorkerMetrics};
use super::options::{OrphanPolicyConfig, WorkerOptions};
use super::orphans::handle_orphans;
use super::reach::RemoteBackoff;
use crate::coordinator::{Claim, Coordinator, ExclusiveHold, OrphanAction, Presence, WorkerTerms};
use crate::layers::{LayerError, LeaveReason, TaskLayers};
use crate::lifecycle::Lifecycle;
use crate::locks::Locks;
use crate::recorder::Recorder;

/// Message of a worker after an outage of its registry.
pub(super) const ANSWERS_AGAIN: &str = "the registry answers again";

/// Callback for a task that a worker leaves to others.
type LeftReporter = Arc<dyn Fn(&TaskRow, &LeaveReason) + Send + Sync>;

/// Worker on the tasks of a registry.
#[derive(Clone)]
pub struct Worker {
    pub(super) coordinator: Arc<dyn Coordinator>,
    pub(super) locks: Locks,
    pub(super) lifecycle: Lifecycle,
    pub(super) layers: TaskLayers,
    pub(super) world: World,
    pub(super) options: Arc<WorkerOptions>,
    pub(super) figures: WorkerMetrics,
    step_reporter: Arc<dyn Fn(&TaskRow) + Send + Sync>,
    left_reporter: LeftReporter,
    /// Whether to check the remote before the first claim.
    doubts_remote: bool,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// Number of tasks that a worker has worked on, by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkerSummary {
    /// Tasks that completed.
    pub completed: u64,
    /// Tasks that failed.
    pub failed: u64,
    /// Tasks that were cancelled.
    pub cancelled: u64,
    /// Tasks that wait for the approval of a user.
    pub waiting: u64,
    /// Tasks that are requeued, because this worker was stopped or does not reach its remote.
    pub requeued: u64,
    /// Tasks lost to other workers.
    pub lost: u64,
}

/// Tasks that a worker leaves to others because of their files ([`LeaveReason`]).
#[derive(Debug, Default)]
struct LeftTasks {
    /// Tasks that the worker does not claim for now.
    skipped: BTreeSet<TaskId>,
    /// Tasks with which the `left_reporter` was called.
    reported: BTreeSet<TaskId>,
}

impl WorkerSummary {
    fn count(&mut self, end: JobEnd) {
        let number = match end {
            JobEnd::Completed => &mut self.completed,
            JobEnd::Failed => &mut self.failed,
            JobEnd::Cancelled => &mut self.cancelled,
            JobEnd::Waiting => &mut self.waiting,
            JobEnd::Requeued | JobEnd::NotFetched => &mut self.requeued,
            JobEnd::Lost => &mut self.lost,
        };
        *number += 1;
    }
}

impl Worker {
    /// Creates a worker for these tasks, whose files are under the root of `layers`. It has the hooks of [`Lifecycle::register_builtin`] and those of
    /// its options.
    #[must_use]
    pub fn new(
        coordinator: Arc<dyn Coordinator>,
        layers: TaskLayers,
        world: World,
        options: WorkerOptions,
    ) -> Self {
        Self::counting_in(WorkerMetrics::default(), coordinator, layers, world, options)
    }

    /// Creates a worker like [`new`](Self::new) that counts in metrics shared with other workers of this process.
    #[must_use]
    pub fn counting_in(
        figures: WorkerMetrics,
        coordinator: Arc<dyn Coordinator>,
        layers: TaskLayers,
        world: World,
        options: WorkerOptions,
    ) -> Self {
        let locks = Locks::new(Arc::clone(&coordinator), world.ids.clone());
        let lifecycle = Lifecycle::counting_in(
            figures.steps.clone(),
            Arc::clone(&coordinator),
            locks.clone(),
            layers.clone(),
        );
        options.register(&lifecycle);
        Self {
            lifecycle,
            coordinator,
            locks,
            layers,
            world,
            options: Arc::new(options),
            figures,
            step_reporter: Arc::new(|_| {}),
            left_reporter: Arc::new(|_, _| {}),
            doubts_remote: false,
        }
    }

    /// Calls `reporter` with each step of its tasks; the callback must return quickly.
    #[must_use]
    pub fn with_step_reporter(self, reporter: impl Fn(&TaskRow) + Send + Sync + 'static) -> Self {
        Self {
            step_reporter: Arc::new(reporter),
            ..self
        }
    }

    /// Calls `reporter` once with each task whose files are not in this worker's folder. The task is left to a worker that has them (TASK-125,
    /// TASK-127).
    #[must_use]
    pub fn with_left_reporter(
        self,
        reporter: impl Fn(&TaskRow, &LeaveReason) + Send + Sync + 'static,
    ) -> Self {
        Self {
            left_reporter: Arc::new(reporter),
            ..self
        }
    }

    /// Makes the worker wait after each step and codon until it is recorded (TASK-86).
    #[must_use]
    pub fn with_recorder(self, recorder: Recorder) -> Self {
        Self {
            lifecycle: self.lifecycle.with_recorder(recorder),
            ..self
        }
    }

    /// Makes the worker check its remote before it claims the first task, because the remote did not answer a moment ago (TASK-119).
    #[must_use]
    pub fn doubting_remote(self, doubts_remote: bool) -> Self {
        Self {
            doubts_remote,
            ..self
        }
    }

    /// Returns the lifecycle that takes each step of the worker's tasks, for hooks.
    #[must_use]
    pub fn lifecycle(&self) -> &Lifecycle {
        &self.lifecycle
    }

    /// Returns the figures so far.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.figures.tasks
    }

    /// Returns all metrics of this worker, in the text format of Prometheus.
    pub async fn page(&self) -> String {
        self.figures.page_with_locks(&self.layers, &self.locks).await
    }

    pub(super) fn report(&self, row: &TaskRow) {
        (self.step_reporter)(row);
    }

    /// Works until asked to stop or, with the option `once`, until there is nothing left to do. When asked to stop, stops its runs in order and
    /// requeues their tasks.
    ///
    /// # Errors
    ///
    /// Returns an error of the registry, unless the registry is away and may come back.
    pub async fn work(&self, shutdown: &Shutdown) -> Result<WorkerSummary, TaskError> {
        let cleaner = self.locks.start_cleaner();
        let presence = self.presence();
        let result = tokio::select! {
            biased;
            // Polled first, so that no task of this worker is older than its presence.
            never = presence.keep() => match never {},
            result = self.work_on(shutdown) => result,
        };
        presence.end().await;
        cleaner.stop().await;
        self.locks.close().await;
        result
    }

    fn presence(&self) -> Presence {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let terms = WorkerTerms {
            slots: self.options.jobs as u64,
            lease_ms: millis(self.options.lease),
            orphan_after_ms: millis(self.options.orphan_after),
            orphans: match self.options.orphans {
                OrphanPolicyConfig::Requeue { .. } => OrphanAction::Requeue,
                OrphanPolicyConfig::Fail => OrphanAction::Fail,
                OrphanPolicyConfig::Leave => OrphanAction::Leave,
            },
        };
        let coordinator = Arc::clone(&self.coordinator);
        let location = Some(self.layers.location());
        Presence::new(
            coordinator,
            &self.options.name,
            self.world.ids.nonce(),
            terms,
            location,
        )
    }

    /// Claims and runs tasks, without the presence and the removal of expired locks.
    async fn work_on(&self, shutdown: &Shutdown) -> Result<WorkerSummary, TaskError> {
        let mut summary = WorkerSummary::default();
        let mut jobs = JoinSet::new();
        let mut changes = self.coordinator.changes();
        let mut next_follow_up = Instant::now();
        let mut reach = RemoteBackoff::new(self.doubts_remote);
        let mut left = LeftTasks::default();
        let mut is_away = false;
        let ended = loop {
            let result = match shutdown.cause() {
                Some(_) => break Ok(()),
                None => {
                    self.poll(&mut jobs, &mut next_follow_up, &mut reach, &mut left, shutdown)
                        .await
                }
            };
            match result {
                Ok(()) if self.options.once && jobs.is_empty() => break Ok(()),
                Ok(()) => {
                    if std::mem::take(&mut is_away) {
                        tracing::warn!("{ANSWERS_AGAIN}");
                    }
                }
                Err(TaskError::LockBackendUnavailable(why)) => {
                    if !std::mem::replace(&mut is_away, true) {
                        tracing::warn!("the registry does not answer, trying again: {why}");
                    }
                }
                Err(error) => break Err(error),
            }
            tokio::select! {
                Some(end) = jobs.join_next() => {
                    let end = ended_job(end);
                    match end {
                        JobEnd::NotFetched => reach.mark_lost(),
                        _ => reach.mark_found(),
                    }
                    summary.count(end);
                }
                () = changes.next() => {}
                () = sleep(self.options.look) => {}
                () = shutdown.requested() => {}
            }
        };
        while let Some(end) = jobs.join_next().await {
            summary.count(ended_job(end));
        }
        ended.map(|()| summary)
    }

    /// Updates the files of lost workers' tasks from time to time, treats orphans, and claims tasks while there is room.
    async fn poll(
        &self,
        jobs: &mut JoinSet<JobEnd>,
        next_follow_up: &mut Instant,
        reach: &mut RemoteBackoff,
        left: &mut LeftTasks,
        shutdown: &Shutdown,
    ) -> Result<(), TaskError> {
        if Instant::now() >= *next_follow_up {
            // The files of skipped tasks may have arrived, or a user may have permitted a start anew.
            left.skipped.clear();
            for id in self.lifecycle.follow_up().await? {
                tracing::info!(taskId = %id, "the files of a task follow its registry again");
            }
            *next_follow_up = Instant::now() + self.options.lease;
        }
        if jobs.len() >= self.options.jobs {
            return Ok(());
        }
        let (after, orphans) = (self.options.orphan_after, self.options.orphans);
        let reporter = &*self.step_reporter;
        handle_orphans(&*self.coordinator, &self.lifecycle, after, orphans, reporter).await?;
        let remote = self.options.remote.as_deref();
        tokio::select! {
            biased;
            () = shutdown.requested() => Ok(()),
            is_reachable = reach.is_reachable(&self.world, remote) => match is_reachable {
                true => self.fill(jobs, left, shutdown).await,
                false => Ok(()),
            },
        }
    }

    /// Claims tasks until there is no more room.
    async fn fill(
        &self,
        jobs: &mut JoinSet<JobEnd>,
        left: &mut LeftTasks,
        shutdown: &Shutdown,
    ) -> Result<(), TaskError> {
        while jobs.len() < self.options.jobs {
            let requested_at = Instant::now();
            let lease = Some(self.options.lease);
            let hold = ExclusiveHold {
                holder: self.holder(),
                lease,
            };
            let claim = Claim {
                owner: None,
                except: left.skipped.clone(),
                hold,
            };
            let Some(claimed) = self.coordinator.claim(claim).await? else {
                break;
            };
            // Always there, because the claim has a hold.
            let Some(held) = claimed.held else { break };
            self.locks.metrics().expired.add(claimed.expired);
            let resource = TaskRow::lock_name(claimed.row.id());
            let guard = self.locks.adopt(resource, &held, lease, requested_at);
            if let Some(why) = self.reason_to_leave(&claimed.row, guard.token()).await {
                guard.release_or_log(None).await;
                self.leave(&claimed.row, &why, left);
                continue;
            }
            self.figures.tasks.claimed.add(1);
            let job = Job::new(self.clone(), claimed.row, &guard, shutdown.clone());
            jobs.spawn(job.work(guard));
        }
        Ok(())
    }

    /// Returns why this worker leaves a task to others: the task's folder has files of another registry's task (TASK-125), or neither the folder nor the
    /// remote has the files of a started task, which would start anew here (TASK-127). With an engine, no task is left.
    async fn reason_to_leave(&self, row: &TaskRow, token: u64) -> Option<LeaveReason> {
        if self.lifecycle.recorder().is_some() {
            return None;
        }
        let files = self.layers.task_of(row);
        let checked = self.world.blocking.run(move || files.check_origin()).await;
        if let Err(LayerError::Task(taken @ TaskError::FolderTaken { .. })) = checked {
            return Some(LeaveReason::Taken(taken));
        }
        let (layers, seen) = (self.layers.clone(), row.clone());
        let missing = self.world.blocking.run(move || layers.missing(&seen)).await?;
        let remote_may_have_run = match &self.options.remote {
            Some(url) => PushTarget::new(&self.world, url, row, token).may_have_run().await,
            None => false,
        };
        (!remote_may_have_run).then_some(LeaveReason::Missing(missing))
    }

    /// Skips a task for now, and reports it the first time.
    fn leave(&self, row: &TaskRow, why: &LeaveReason, left: &mut LeftTasks) {
        left.skipped.insert(row.id().clone());
        if left.reported.insert(row.id().clone()) {
            (self.left_reporter)(row, why);
        }
    }

    /// Returns a holder with a new, unique scope.
    fn holder(&self) -> Holder {
        Holder::new(format!("lifecycle:{}", self.options.name), self.world.ids.nonce())
    }
}

/// Returns the outcome of an ended job; continues a panic of the job.
fn ended_job(end: Result<JobEnd, tokio::task::JoinError>) -> JobEnd {
    match end {
        Ok(end) => end,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => JobEnd::Lost,
    }
}
