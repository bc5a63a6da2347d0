//! Steps of tasks, for workers, commands and embedders. Each step runs hooks before it, changes the registry and then the files under the task's lock, and
//! runs hooks after it (TASK-32, TASK-33, TASK-104).

mod builtin;
mod hooks;
mod metrics;
mod recover;
mod step;

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hankweave_core::id::{AgentId, TaskId};
use hankweave_task_model::lock::LockMode;
use hankweave_task_model::registry::{
    ChangedTask, FilesLocation, NewTask, Patch, RegistryChange, TaskCost, TaskRow,
};
use hankweave_task_model::task::{TaskFailure, TaskRecord, TaskResult, TaskStatus};
use hankweave_task_model::{CheckpointId, Holder, Hooks, TaskError, TaskState};
use tokio::time::{Instant, timeout};

use crate::coordinator::{Coordinator, Create, ExclusiveHold, ListQuery, TaskFilter, UpdateTask};
use crate::layers::{LayerError, RestoreOptions, TaskFiles, TaskLayers};
use crate::locks::{DEFAULT_LEASE, LockGuard, LockRequest, Locks};
use crate::publish::publish;
use crate::recorder::Recorder;

pub use builtin::is_contained;
pub use hooks::{HookCall, HookRun};
pub use metrics::StepMetrics;
pub use recover::{ORPHAN_AFTER, ORPHANED, OrphanAction, RecoveryReport};
pub use step::{TaskAnswer, TaskStep};

/// Time limit of a step, without the hooks after it.
pub const LONGEST_STEP: Duration = Duration::from_secs(60);

/// Number of changes within one status after which a task is reported: it may change endlessly.
const MANY_CHANGES: u64 = 1000;

/// Number of attempts at a step, if the task's row changes between reading and writing.
const MOST_ATTEMPTS: u32 = 5;

struct Shared {
    coordinator: Arc<dyn Coordinator>,
    locks: Locks,
    layers: TaskLayers,
    hooks: Mutex<Hooks<HookRun>>,
    metrics: Arc<StepMetrics>,
}

/// Lifecycle of tasks, which takes them from status to status. Copies share their hooks and metrics.
#[derive(Clone)]
pub struct Lifecycle {
    shared: Arc<Shared>,
    /// Lock on the task that the caller already holds; `None` to acquire a lock for each step.
    hold: Option<ExclusiveHold>,
    /// Engine that records each step.
    recorder: Option<Recorder>,
    /// Cost of the task, to be stored with each step; `None` if the caller does not know it.
    cost: Option<TaskCost>,
    /// Folder of the task's files, to be stored with a step that starts no attempt.
    files: Patch<FilesLocation>,
    /// User who asks for the steps.
    by: Option<String>,
}

impl fmt::Debug for Lifecycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lifecycle")
            .field("coordinator", &self.shared.coordinator)
            .finish_non_exhaustive()
    }
}

impl Lifecycle {
    /// Creates a lifecycle without hooks.
    #[must_use]
    pub fn new(coordinator: Arc<dyn Coordinator>, locks: Locks, layers: TaskLayers) -> Self {
        Self::counting_in(Arc::default(), coordinator, locks, layers)
    }

    /// Creates a lifecycle that counts its steps in shared metrics.
    pub(crate) fn counting_in(
        metrics: Arc<StepMetrics>,
        coordinator: Arc<dyn Coordinator>,
        locks: Locks,
        layers: TaskLayers,
    ) -> Self {
        let shared = Shared {
            coordinator,
            locks,
            layers,
            hooks: Mutex::default(),
            metrics,
        };
        Self {
            shared: Arc::new(shared),
            hold: None,
            recorder: None,
            cost: None,
            files: Patch::Keep,
            by: None,
        }
    }

    /// Uses the lock on the task that the caller already holds, as a worker does; each step renews the lease.
    #[must_use]
    pub fn with_hold(&self, hold: ExclusiveHold) -> Self {
        Self {
            hold: Some(hold),
            ..self.clone()
        }
    }

    /// Notes with each step that this user asked for it.
    #[must_use]
    pub fn asked_by(&self, user: &str) -> Self {
        Self {
            by: Some(user.to_owned()),
            ..self.clone()
        }
    }

    /// Records steps with an engine: the files follow a step once it is recorded (TASK-86).
    #[must_use]
    pub fn with_recorder(&self, recorder: Recorder) -> Self {
        Self {
            recorder: Some(recorder),
            ..self.clone()
        }
    }

    /// Stores the known cost of the task with each step, and the folder of its files with a step that starts no attempt.
    pub(crate) fn noting(&self, cost: Option<TaskCost>, files: Patch<FilesLocation>) -> Self {
        Self {
            cost,
            files,
            ..self.clone()
        }
    }

    /// Waits until an engine, if there is one, has recorded a step.
    async fn record(&self) {
        if let Some(recorder) = &self.recorder {
            recorder.record(None).await;
        }
    }

    /// Returns the engine that records steps, if there is one.
    pub(crate) fn recorder(&self) -> Option<&Recorder> {
        self.recorder.as_ref()
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn metrics(&self) -> &StepMetrics {
        &self.shared.metrics
    }

    /// Creates a task with its files. No worker can claim it before the files exist.
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::TaskCreateFailed`] for an id that is or was in use, and [`TaskError::FolderTaken`] if another registry has a task of this
    /// id. Files that could not be written are written at the next step or start.
    pub async fn create(&self, task: NewTask) -> Result<TaskRow, TaskError> {
        self.check_folder(&task.id).await?;
        let (hold, requested_at) = (self.hold(&task.owner), Instant::now());
        let (resource, lease) = (TaskRow::lock_name(&task.id), hold.lease);
        let created = self
            .shared
            .coordinator
            .create(Create {
                task,
                hold: Some(hold),
            })
            .await?;
        let row = created.row;
        log_transition("none", &row, "create", requested_at);
        if let Some(held) = created.held {
            let guard = self.shared.locks.adopt(resource, &held, lease, requested_at);
            let written = self.sync_files(&row, guard.token()).await;
            guard
                .release_or_log(written.map(|seq| (row.id().clone(), seq)))
                .await;
        }
        Ok(row)
    }

    /// Checks that the folder of a task, which need not exist yet, has no files of another registry's task (TASK-125).
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::FolderTaken`], or what the registry says.
    pub async fn check_folder(&self, id: &TaskId) -> Result<(), TaskError> {
        let files = self.shared.layers.task(id.clone());
        // A read error is reported by the next writer.
        let Ok(Some(created)) = files.run(TaskFiles::created).await else {
            return Ok(());
        };
        let coordinator = &self.shared.coordinator;
        let is_own = match coordinator.task(id.clone()).await? {
            Some(row) => *row.record.created_at() == created,
            // Files that the deletion left. The registry itself refuses the id of a deleted task.
            None => coordinator.deleted_at(id.clone()).await?.is_some(),
        };
        match is_own {
            true => Ok(()),
            false => Err(files.is_taken()),
        }
    }

    /// Takes a step: hooks before, the step under the lock, hooks after.
    ///
    /// # Errors
    ///
    /// [`TaskError::InvalidArgument`] in a hook that runs before a step of this task (TASK-97);
    /// [`TaskError::HookVeto`], [`TaskError::HookTimeout`], [`TaskError::ResourceLocked`], [`TaskError::TaskNotFound`], [`TaskError::InvalidTransition`],
    /// [`TaskError::LockTimeout`] when the step took too long or the lock was lost, or the error of the registry.
    pub async fn take(&self, id: &TaskId, step: &TaskStep) -> Result<TaskRow, TaskError> {
        hooks::refuse_inside_hook(id)?;
        let began = Instant::now();
        let known = match step {
            // A user's request to cancel may replace these steps, and with them the hooks.
            TaskStep::Requeue(_) | TaskStep::Fail(_) => self.shared.coordinator.task(id.clone()).await?,
            _ => None,
        };
        let step = known.as_ref().map_or(step, |row| step.or_requested_cancel(row));
        let call = |point| HookCall {
            point,
            task: id.clone(),
            about: step.about(),
        };
        let limited_step = timeout(LONGEST_STEP, async {
            if let Some((before, _)) = step.points() {
                self.run_hooks(call(before)).await?;
            }
            self.locked_step(id, step).await
        });
        let result = match limited_step.await {
            Ok(result) => result,
            Err(_) => Err(self.too_long_error(id, step).await),
        };
        match &result {
            Ok(_) => self.shared.metrics.record_step(step.leads_to(), began.elapsed()),
            Err(_) => self.shared.metrics.failed.add(1),
        }
        let row = result?;
        if let Some((_, after)) = step.points() {
            // The step is taken already, and the failure was logged.
            let _ = self.run_hooks(call(after)).await;
        }
        Ok(row)
    }

    /// Checks that the task's status and the holder of its lock permit a step now. A command must call this before a step whose hooks write files,
    /// because these hooks run before the step can be refused (TASK-32).
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::TaskNotFound`], [`TaskError::InvalidTransition`], [`TaskError::ResourceLocked`], or what the registry says.
    pub async fn check(&self, id: &TaskId, step: &TaskStep) -> Result<(), TaskError> {
        let coordinator = &self.shared.coordinator;
        let row = coordinator.task(id.clone()).await?;
        let row = row.ok_or_else(|| TaskError::TaskNotFound(id.to_string()))?;
        step.transitions(&row)?;
        let (resource, now) = (TaskRow::lock_name(id), coordinator.now().await?);
        let locks = coordinator.resource(resource.clone()).await?;
        match locks.held.into_iter().find(|held| held.lives(now)) {
            Some(held) => Err(TaskError::ResourceLocked {
                resource,
                existing_owner: held.holder.owner.to_string(),
            }),
            None => Ok(()),
        }
    }

    /// Starts a pending task for an agent.
    ///
    /// # Errors
    ///
    /// Fails like [`take`](Self::take).
    pub async fn start(&self, id: &TaskId, agent_id: AgentId) -> Result<TaskRow, TaskError> {
        self.take(id, &TaskStep::Start(agent_id)).await
    }

    /// Completes a running task.
    ///
    /// # Errors
    ///
    /// Fails like [`take`](Self::take).
    pub async fn complete(&self, id: &TaskId, result: TaskResult) -> Result<TaskRow, TaskError> {
        self.take(id, &TaskStep::Complete(result)).await
    }

    /// Fails a running task.
    ///
    /// # Errors
    ///
    /// Fails like [`take`](Self::take).
    pub async fn fail(&self, id: &TaskId, failure: impl Into<TaskFailure>) -> Result<TaskRow, TaskError> {
        self.take(id, &TaskStep::Fail(failure.into())).await
    }

    /// Cancels a pending or running task. Refused if a worker holds the task: ask that worker, with [`Coordinator::request_cancel`].
    ///
    /// # Errors
    ///
    /// Fails like [`take`](Self::take).
    pub async fn cancel(&self, id: &TaskId) -> Result<TaskRow, TaskError> {
        self.take(id, &TaskStep::Cancel).await
    }

    /// Deletes an ended task with its files. Its id stays in use.
    ///
    /// # Errors
    ///
    /// Fails like [`take`](Self::take). Returns [`TaskDeleteFailed`](TaskError::TaskDeleteFailed) if another task waits for this one and this one has
    /// not completed: the other could never start.
    pub async fn delete(&self, id: &TaskId) -> Result<TaskRow, TaskError> {
        if let Some(waiting) = self.waiting_task(id).await? {
            return Err(TaskError::TaskDeleteFailed {
                id: id.to_string(),
                reason: format!(
                    "`{waiting}` waits for it, and could never start; cancel that one first, or resume this one"
                ),
            });
        }
        self.take(id, &TaskStep::Delete).await
    }

    /// Returns a pending task that comes after the task `id`, if `id` failed or was cancelled.
    async fn waiting_task(&self, id: &TaskId) -> Result<Option<TaskId>, TaskError> {
        let coordinator = &self.shared.coordinator;
        let row = coordinator.task(id.clone()).await?;
        let has_not_completed =
            |row: &TaskRow| matches!(row.record.status(), TaskStatus::Failed | TaskStatus::Cancelled);
        if !row.as_ref().is_some_and(has_not_completed) {
            return Ok(None);
        }
        let pending = ListQuery {
            filter: TaskFilter {
                status: Some(TaskStatus::Pending),
                ..TaskFilter::default()
            },
            ..ListQuery::default()
        };
        let pending = coordinator.tasks(pending).await?;
        let waiting = pending.iter().find(|row| row.after.contains(id));
        Ok(waiting.map(|row| row.id().clone()))
    }

    /// Requeues a failed or cancelled task, from one of its checkpoints if requested. Runs no hooks. An orphan fails first, with the hooks of that
    /// step (TASK-98).
    ///
    /// # Errors
    ///
    /// Fails like [`take`](Self::take), or because the checkpoint cannot be restored. The task is unchanged then.
    pub async fn resume(&self, id: &TaskId, checkpoint: Option<CheckpointId>) -> Result<TaskRow, TaskError> {
        let step = match self.is_orphan(id).await? {
            true => TaskStep::Requeue(ORPHANED.to_owned()),
            false => TaskStep::Resume,
        };
        match checkpoint {
            None => self.take(id, &step).await,
            Some(_) => self.take_under_one_lock(id, checkpoint, &[step]).await,
        }
    }

    /// Starts a pending, failed or cancelled task for an agent, in one step, so that no worker can claim it in between. Runs the hooks of a start. If
    /// these refuse, the task is unchanged, except that an orphan has been requeued (TASK-115).
    ///
    /// # Errors
    ///
    /// Fails like [`resume`](Self::resume).
    pub async fn resume_for(
        &self,
        id: &TaskId,
        checkpoint: Option<CheckpointId>,
        agent_id: AgentId,
    ) -> Result<TaskRow, TaskError> {
        if let Some(row) = self.shared.coordinator.task(id.clone()).await? {
            self.check_location(&row).await?;
        }
        let steps = match self.is_orphan(id).await? {
            true => vec![TaskStep::Requeue(ORPHANED.to_owned()), TaskStep::Attach(agent_id)],
            false => vec![TaskStep::ResumeFor(agent_id)],
        };
        self.take_under_one_lock(id, checkpoint, &steps).await
    }

    /// Takes steps one after another under one lock, and restores the checkpoint first if there is one.
    async fn take_under_one_lock(
        &self,
        id: &TaskId,
        checkpoint: Option<CheckpointId>,
        steps: &[TaskStep],
    ) -> Result<TaskRow, TaskError> {
        let (mut guard, mut row) = self.lock(id, SYSTEM).await?;
        let hold = ExclusiveHold {
            holder: guard.holder().clone(),
            lease: Some(DEFAULT_LEASE),
        };
        let (held, token) = (self.with_hold(hold), guard.token());
        let result = guard.keep(async {
            if let (Some(checkpoint), [first, ..]) = (checkpoint, steps) {
                // Nothing is restored for a step that would be refused.
                first.transitions(&row)?;
                self.restore(&row, Some(token), checkpoint).await?;
            }
            for step in steps {
                row = held.take(id, step).await?;
            }
            Ok(row)
        });
        let result = result.await.and_then(|result| result);
        guard.release_or_log(None).await;
        result
    }

    /// Whether the task is an orphan (TASK-24) that was unchanged for long enough. The next step takes the lock, so a change in between does no harm.
    async fn is_orphan(&self, id: &TaskId) -> Result<bool, TaskError> {
        let orphans = self.shared.coordinator.orphans(ORPHAN_AFTER).await?;
        Ok(orphans.iter().any(|row| row.id() == id))
    }

    async fn restore(
        &self,
        row: &TaskRow,
        token: Option<u64>,
        checkpoint: CheckpointId,
    ) -> Result<(), TaskError> {
        let options = RestoreOptions {
            status: Some(row.record.status()),
            token,
            ..RestoreOptions::default()
        };
        let files = self.files_of(row).await;
        let restored = files
            .run(move |files| files.restore_checkpoint(checkpoint, options))
            .await;
        restored.map(drop).map_err(|error| layer_error(row.id(), &error))
    }

    /// Changes the descriptive fields of a task.
    ///
    /// # Errors
    ///
    /// As [`Coordinator::update`].
    pub async fn update(&self, update: UpdateTask) -> Result<TaskRow, TaskError> {
        let row = self.shared.coordinator.update(update).await?;
        let changes = row.version - row.status_version;
        if changes > MANY_CHANGES && changes.is_multiple_of(MANY_CHANGES) {
            let status = row.record.status();
            tracing::warn!(taskId = %row.id(), changes, %status, "a task changes again and again without a new status");
        }
        Ok(row)
    }

    /// Returns the caller's hold, or a new one for `who`.
    fn hold(&self, who: &str) -> ExclusiveHold {
        let new = || ExclusiveHold {
            holder: self.shared.locks.scope(&format!("lifecycle:{who}")),
            lease: Some(DEFAULT_LEASE),
        };
        self.hold.clone().unwrap_or_else(new)
    }

    /// Acquires the task's lock for the caller's holder or for `who`, and reads the task under it.
    async fn lock(&self, id: &TaskId, who: &str) -> Result<(LockGuard, TaskRow), TaskError> {
        let resource = TaskRow::lock_name(id);
        let request = self.shared.locks.request(resource, "", LockMode::Exclusive);
        let ExclusiveHold { holder, lease } = self.hold(who);
        let request = LockRequest {
            holder,
            lease,
            task: Some(id.clone()),
            ..request
        };
        let granted = self.shared.locks.acquire(request).await?;
        let row = granted
            .row
            .ok_or_else(|| TaskError::TaskNotFound(id.to_string()))?;
        Ok((granted.guard, row))
    }

    /// Acquires the lock, changes the registry, then the files, and releases the lock.
    async fn locked_step(&self, id: &TaskId, step: &TaskStep) -> Result<TaskRow, TaskError> {
        let (mut guard, mut row) = self.lock(id, step.holder_name()).await?;
        let token = guard.token();
        let work = async {
            let changed = self.change(&mut row, token, step).await?;
            self.record().await;
            let written = self.sync_files(&changed.row, token).await;
            Ok((changed.row, written))
        };
        let result = guard.keep(work).await.and_then(|result| result);
        let written = match &result {
            Ok((row, Some(seq))) => Some((row.id().clone(), *seq)),
            _ => None,
        };
        guard.release_or_log(written).await;
        result.map(|(row, _)| row)
    }

    /// Changes the registry. If another writer was faster, reads the row again and repeats the change.
    async fn change(&self, row: &mut TaskRow, token: u64, step: &TaskStep) -> Result<ChangedTask, TaskError> {
        let began = Instant::now();
        let cost = match self.cost {
            None => self.cost_of_lost(row, step).await,
            known => known,
        };
        let files = self.files_after(step).await;
        for attempt in 1.. {
            let change = RegistryChange {
                cost,
                by: self.by.clone(),
                lease: self.lease_of_start(step),
                files: files.clone(),
                ..step.change(row, token)?
            };
            match self.shared.coordinator.change(change).await {
                Ok(changed) => {
                    log_transition(row.record.status().as_str(), &changed.row, step.method(), began);
                    return Ok(changed);
                }
                Err(TaskError::VersionConflict { .. }) if attempt < MOST_ATTEMPTS => {
                    let id = row.id().clone();
                    let read = self.shared.coordinator.task(id.clone()).await?;
                    *row = read.ok_or_else(|| TaskError::TaskNotFound(id.to_string()))?;
                }
                Err(error) => return Err(error),
            }
        }
        // Not reached: the last attempt returns its own error.
        Err(TaskError::InvalidArgument("a step is tried at least once"))
    }

    /// Returns the lease of a worker that starts a task, so that others can see when a renewal is late (TASK-52).
    fn lease_of_start(&self, step: &TaskStep) -> Option<Duration> {
        match step {
            TaskStep::Start(_) | TaskStep::Attach(_) => self.hold.as_ref()?.lease,
            _ => None,
        }
    }

    /// Returns the location of the task's files to store with a step: each start sets it to this folder (TASK-127). With an engine, tasks store no
    /// location.
    async fn files_after(&self, step: &TaskStep) -> Patch<FilesLocation> {
        let is_start = step.leads_to() == TaskStatus::Running;
        if !is_start || self.recorder.is_some() {
            return self.files.clone();
        }
        let layers = self.shared.layers.clone();
        let blocking = layers.blocking();
        Patch::Set(blocking.run(move || layers.location()).await)
    }

    /// Refuses a task that was started elsewhere and whose files are not in this folder (TASK-127).
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::FilesElsewhere`].
    pub async fn check_location(&self, row: &TaskRow) -> Result<(), TaskError> {
        let (layers, seen) = (self.shared.layers.clone(), row.clone());
        let blocking = layers.blocking();
        match blocking.run(move || layers.missing(&seen)).await {
            None => Ok(()),
            Some(missing) => Err(TaskError::FilesElsewhere {
                id: row.id().to_string(),
                machine: missing.location.machine,
                folder: missing.location.folder,
            }),
        }
    }

    /// Returns the cost to store with a step that ends an attempt without its worker, which alone knew the attempt's cost (TASK-121). `None` for any other
    /// step, and if the worker has not worked, as far as is known.
    async fn cost_of_lost(&self, row: &TaskRow, step: &TaskStep) -> Option<TaskCost> {
        let TaskRecord::Running(running) = &row.record else {
            return None;
        };
        let is_orphan = step.ends_orphan();
        // A worker that ends its own attempt notes the cost, and nothing counts the cost of an attempt by hand.
        if running.by_hand || (self.hold.is_some() && !is_orphan) {
            return None;
        }
        let (layers, seen) = (self.shared.layers.clone(), row.clone());
        let read = move || {
            let files = layers.find(&seen);
            let is_elsewhere = files.went_on_in(&seen).is_some() || layers.missing(&seen).is_some();
            (
                files.load_state().ok().flatten(),
                files.cost(&seen),
                is_elsewhere,
                files.is_there(),
            )
        };
        let (state, known, is_elsewhere, is_there) = self.shared.layers.blocking().run(read).await;
        let attempt = state
            .as_ref()
            .and_then(|state| state.data.get("attempt")?.as_u64());
        let is_of_attempt = |state: &TaskState| {
            state.fencing_token.is_some() && state.fencing_token == Some(row.fencing_token)
        };
        let has_worked = match attempt {
            // The attempt worked with another folder, and its progress is there.
            _ if is_elsewhere => true,
            // The worker has written into these files, but no progress yet.
            _ if state.as_ref().is_some_and(is_of_attempt) => true,
            Some(attempt) => attempt == u64::from(running.attempt.number()),
            // Without a state, an orphan was lost before it wrote one, or the files are on another machine.
            None => state.is_none() && (is_orphan || !is_there),
        };
        known.filter(|_| has_worked)
    }

    /// Returns the files of a task where they are on this machine (TASK-127).
    async fn files_of(&self, row: &TaskRow) -> TaskFiles {
        let (layers, seen) = (self.shared.layers.clone(), row.clone());
        let blocking = layers.blocking();
        blocking.run(move || layers.find(&seen)).await
    }

    /// Updates the files from the registry. Returns the number of the last written line on success.
    async fn sync_files(&self, row: &TaskRow, token: u64) -> Option<u64> {
        let files = self.files_of(row).await;
        let result = match row.record.status() {
            TaskStatus::Deleted => files.run(|files| files.remove()).await.map(|()| None),
            _ => publish(&*self.shared.coordinator, &files, row, Some(token))
                .await
                .map(Some),
        };
        result.unwrap_or_else(|error| {
            tracing::warn!(taskId = %row.id(), %error, "the files of a task do not follow yet");
            None
        })
    }

    /// Returns the error of a step that did not end in time, and logs the holders that may have blocked it.
    async fn too_long_error(&self, id: &TaskId, step: &TaskStep) -> TaskError {
        let resource = TaskRow::lock_name(id);
        let read = timeout(
            Duration::from_secs(1),
            self.shared.coordinator.resource(resource.clone()),
        )
        .await;
        if let Ok(Ok(read)) = read {
            for held in read.held {
                let Holder { owner, scope } = &held.holder;
                let (since, method) = (held.acquired_at, step.method());
                tracing::warn!(resource, %owner, %scope, %since, method, "a step took too long while this lock was held");
            }
        }
        TaskError::LockTimeout { resource }
    }
}

/// Logs that a task has changed from one status to another (TASK-96).
fn log_transition(from: &str, row: &TaskRow, trigger: &str, began: Instant) {
    tracing::info!(
        system = "TaskLifecycle",
        taskId = %row.id(),
        fromState = from,
        toState = row.record.status().as_str(),
        trigger,
        duration = began.elapsed().as_secs_f64() * 1000.0,
        "State transition"
    );
}

/// Owner of the lock for a step of no particular agent or user.
const SYSTEM: &str = "system";

fn layer_error(id: &TaskId, error: &LayerError) -> TaskError {
    match error {
        LayerError::Task(error) => error.clone(),
        other => TaskError::TaskUpdateFailed {
            id: id.to_string(),
            reason: other.to_string(),
        },
    }
}

#[cfg(test)]
mod tests;
