//! The steps of tasks: hooks before, under the lock the registry and then the files, hooks behind (TASK-32, TASK-33).

mod hooks;
mod recover;

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hankweave_core::id::{AgentId, TaskId};
use hankweave_task_model::lock::LockMode;
use hankweave_task_model::registry::{Change, Changed, NewTask, TaskRow};
use hankweave_task_model::task::{Complete, Fail, Start, TaskResult, TaskStatus, TaskTransition, Typed};
use hankweave_task_model::{CheckpointId, Holder, HookPoint, Hooks, TaskError};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::coordinator::{Coordinator, Create, Hold, Update};
use crate::layers::{LayerError, Layers, RestoreOptions};
use crate::locks::{DEFAULT_LEASE, LockGuard, LockRequest, Locks};
use crate::metrics::{Counter, Timer};
use crate::publish::publish;

pub use hooks::{HookCall, HookRun};
pub use recover::{ORPHAN_AFTER, Orphans, Recovered};

/// How long a step may take, without the hooks behind it.
pub const LONGEST_STEP: Duration = Duration::from_secs(60);

/// A task that changed so often without coming to another status goes round in circles, perhaps.
const MANY_CHANGES: u64 = 1000;

/// How often a step is taken anew when somebody changed a note of the task in between.
const TRIES: u32 = 5;

/// What was counted and timed about steps.
#[derive(Debug, Default)]
pub struct StepMetrics {
    /// Steps that were taken, from the wish to the end of the lock.
    pub taken: Timer,
    /// Steps that were refused or failed.
    pub failed: Counter,
    /// Hooks, however they ended.
    pub hooks: Timer,
    /// Hooks that failed, panicked or took too long.
    pub failed_hooks: Counter,
}

struct Shared {
    coordinator: Arc<dyn Coordinator>,
    locks: Locks,
    layers: Layers,
    hooks: Mutex<Hooks<HookRun>>,
    metrics: StepMetrics,
}

/// Moves tasks from status to status. Copies share their hooks and their figures.
#[derive(Clone)]
pub struct Lifecycle(Arc<Shared>, Option<Holder>);

impl fmt::Debug for Lifecycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lifecycle")
            .field("coordinator", &self.0.coordinator)
            .finish_non_exhaustive()
    }
}

impl Lifecycle {
    /// One without hooks.
    #[must_use]
    pub fn new(coordinator: Arc<dyn Coordinator>, locks: Locks, layers: Layers) -> Self {
        let shared = Shared {
            coordinator,
            locks,
            layers,
            hooks: Mutex::default(),
            metrics: StepMetrics::default(),
        };
        Self(Arc::new(shared), None)
    }

    /// The same for somebody who holds the tasks already, as a worker does.
    #[must_use]
    pub fn held_by(&self, holder: Holder) -> Self {
        Self(self.0.clone(), Some(holder))
    }

    /// What was counted so far.
    #[must_use]
    pub fn metrics(&self) -> &StepMetrics {
        &self.0.metrics
    }

    /// Creates a task with its files. Nobody claims it before these are there.
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::TaskCreateFailed`] for an id that is or was in use. Files that could not be written follow at the next step or start.
    pub async fn create(&self, task: NewTask) -> Result<TaskRow, TaskError> {
        let holder = self.holder(&task.owner);
        let resource = TaskRow::lock_name(&task.id);
        let hold = Hold {
            holder,
            lease: Some(DEFAULT_LEASE),
        };
        let created = self
            .0
            .coordinator
            .create(Create {
                task,
                hold: Some(hold),
            })
            .await?;
        let row = created.row;
        if let Some(held) = created.held {
            let guard = self.0.locks.adopt(resource, &held, Some(DEFAULT_LEASE));
            let written = self.follow(&row, guard.token()).await;
            guard
                .release_or_log(written.map(|seq| (row.id().clone(), seq)))
                .await;
        }
        Ok(row)
    }

    /// An agent begins to work on a pending task.
    ///
    /// # Errors
    ///
    /// As for every step: [`TaskError::HookVeto`], [`TaskError::HookTimeout`], [`TaskError::ResourceLocked`], [`TaskError::TaskNotFound`], [`TaskError::InvalidTransition`],
    /// [`TaskError::LockTimeout`] when it took too long, or what the registry says.
    pub async fn start(&self, id: &TaskId, agent_id: AgentId) -> Result<TaskRow, TaskError> {
        let (who, about) = (agent_id.as_str().to_owned(), json!(agent_id));
        let next = move |task| match task {
            Typed::Pending(task) => Some(
                task.step(Start {
                    agent_id: agent_id.clone(),
                })
                .into_event(),
            ),
            _ => None,
        };
        let points = Some((HookPoint::BeforeStart, HookPoint::AfterStart));
        self.step(
            id,
            Step {
                method: "start",
                who,
                about,
                points,
                next: &next,
            },
        )
        .await
    }

    /// The work on a running task is done.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub async fn complete(&self, id: &TaskId, result: TaskResult) -> Result<TaskRow, TaskError> {
        let about = json!(result);
        let next = move |task| match task {
            Typed::Running(task) => Some(
                task.step(Complete {
                    result: result.clone(),
                })
                .into_event(),
            ),
            _ => None,
        };
        let points = Some((HookPoint::BeforeComplete, HookPoint::AfterComplete));
        self.step(
            id,
            Step {
                method: "complete",
                who: SYSTEM.to_owned(),
                about,
                points,
                next: &next,
            },
        )
        .await
    }

    /// The work on a running task failed.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub async fn fail(&self, id: &TaskId, error: String) -> Result<TaskRow, TaskError> {
        let about = json!(error);
        let next = move |task| match task {
            Typed::Running(task) => Some(task.step(Fail { error: error.clone() }).into_event()),
            _ => None,
        };
        let points = Some((HookPoint::BeforeFail, HookPoint::AfterFail));
        self.step(
            id,
            Step {
                method: "fail",
                who: SYSTEM.to_owned(),
                about,
                points,
                next: &next,
            },
        )
        .await
    }

    /// Somebody calls a pending or running task off. One that a worker holds is refused: ask that worker, with [`Coordinator::request_cancel`].
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub async fn cancel(&self, id: &TaskId) -> Result<TaskRow, TaskError> {
        let next = |task| match task {
            Typed::Pending(_) | Typed::Running(_) => Some(TaskTransition::Cancel),
            _ => None,
        };
        let points = Some((HookPoint::BeforeCancel, HookPoint::AfterCancel));
        self.step(
            id,
            Step {
                method: "cancel",
                who: SYSTEM.to_owned(),
                about: Value::Null,
                points,
                next: &next,
            },
        )
        .await
    }

    /// Removes a task that has ended, with its files; its id stays taken.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub async fn delete(&self, id: &TaskId) -> Result<TaskRow, TaskError> {
        let next = |task| match task {
            Typed::Completed(_) | Typed::Failed(_) | Typed::Cancelled(_) => Some(TaskTransition::Delete),
            _ => None,
        };
        let points = Some((HookPoint::BeforeDelete, HookPoint::AfterDelete));
        self.step(
            id,
            Step {
                method: "delete",
                who: SYSTEM.to_owned(),
                about: Value::Null,
                points,
                next: &next,
            },
        )
        .await
    }

    /// Takes a task up again that failed or was called off, from one of its checkpoints if that is asked for. It has no hooks.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start), or why the checkpoint cannot be restored; then the task stays as it was.
    pub async fn resume(&self, id: &TaskId, checkpoint: Option<CheckpointId>) -> Result<TaskRow, TaskError> {
        let next = |task| match task {
            Typed::Failed(_) | Typed::Cancelled(_) => Some(TaskTransition::Resume),
            _ => None,
        };
        let step = Step {
            method: "resume",
            who: SYSTEM.to_owned(),
            about: Value::Null,
            points: None,
            next: &next,
        };
        let Some(checkpoint) = checkpoint else {
            return self.step(id, step).await;
        };
        let (mut guard, row) = self.lock(id, SYSTEM).await?;
        let (held, token) = (self.held_by(guard.holder().clone()), guard.token());
        let done = guard.keep(async {
            step.of(&row)?;
            self.restore(&row, Some(token), checkpoint).await?;
            held.step(id, step).await
        });
        let done = done.await.and_then(|done| done);
        guard.release_or_log(None).await;
        done
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
        let files = self.0.layers.task(row.id().clone());
        let restored = files
            .run(move |files| files.restore_checkpoint(checkpoint, options))
            .await;
        restored.map(drop).map_err(|error| unfiled(row.id(), &error))
    }

    /// Changes what people note about a task.
    ///
    /// # Errors
    ///
    /// As [`Coordinator::update`].
    pub async fn update(&self, update: Update) -> Result<TaskRow, TaskError> {
        let row = self.0.coordinator.update(update).await?;
        let changes = row.version - row.status_version;
        if changes > MANY_CHANGES && changes.is_multiple_of(MANY_CHANGES) {
            let status = row.record.status();
            tracing::warn!(taskId = %row.id(), changes, %status, "a task changes again and again and stays where it is");
        }
        Ok(row)
    }

    fn holder(&self, who: &str) -> Holder {
        let new = || self.0.locks.scope(&format!("lifecycle:{who}"));
        self.1.clone().unwrap_or_else(new)
    }

    async fn lock(&self, id: &TaskId, who: &str) -> Result<(LockGuard, TaskRow), TaskError> {
        let resource = TaskRow::lock_name(id);
        let request = self.0.locks.request(resource, "", LockMode::Exclusive);
        let request = LockRequest {
            holder: self.holder(who),
            task: Some(id.clone()),
            ..request
        };
        let granted = self.0.locks.acquire(request).await?;
        let row = granted
            .row
            .ok_or_else(|| TaskError::TaskNotFound(id.to_string()))?;
        Ok((granted.guard, row))
    }

    /// Hooks before, the step under the lock, hooks behind.
    async fn step(&self, id: &TaskId, step: Step<'_>) -> Result<TaskRow, TaskError> {
        let began = Instant::now();
        let call = |point| HookCall {
            point,
            task: id.clone(),
            about: step.about.clone(),
        };
        let taken = timeout(LONGEST_STEP, async {
            if let Some((before, _)) = step.points {
                self.run_hooks(call(before)).await?;
            }
            self.locked_step(id, &step).await
        });
        let taken = match taken.await {
            Ok(taken) => taken,
            Err(_) => Err(self.too_long(id, &step).await),
        };
        match &taken {
            Ok(_) => self.0.metrics.taken.add(began.elapsed()),
            Err(_) => self.0.metrics.failed.add(1),
        }
        let row = taken?;
        if let Some((_, after)) = step.points {
            // Nothing can prevent the step any more; the failure has been logged.
            let _ = self.run_hooks(call(after)).await;
        }
        Ok(row)
    }

    async fn locked_step(&self, id: &TaskId, step: &Step<'_>) -> Result<TaskRow, TaskError> {
        let (mut guard, mut row) = self.lock(id, &step.who).await?;
        let token = guard.token();
        let work = async {
            let changed = self.change(&mut row, token, step).await?;
            let written = self.follow(&changed.row, token).await;
            Ok((changed.row, written))
        };
        let done = guard.keep(work).await.and_then(|done| done);
        let written = done
            .as_ref()
            .ok()
            .and_then(|(row, written)| Some((row.id().clone(), (*written)?)));
        guard.release_or_log(written).await;
        done.map(|(row, _)| row)
    }

    async fn change(&self, row: &mut TaskRow, token: u64, step: &Step<'_>) -> Result<Changed, TaskError> {
        let began = Instant::now();
        for made in 1.. {
            let change = Change {
                id: row.id().clone(),
                expected_version: row.version,
                token,
                steps: vec![step.of(row)?],
            };
            match self.0.coordinator.change(change).await {
                Ok(changed) => {
                    self.told(row, &changed, step, began);
                    return Ok(changed);
                }
                Err(TaskError::VersionConflict { .. }) if made < TRIES => {
                    let id = row.id().clone();
                    let read = self.0.coordinator.task(id.clone()).await?;
                    *row = read.ok_or_else(|| TaskError::TaskNotFound(id.to_string()))?;
                }
                Err(error) => return Err(error),
            }
        }
        Err(TaskError::InvalidArgument("a step is tried at least once"))
    }

    fn told(&self, from: &TaskRow, changed: &Changed, step: &Step<'_>, began: Instant) {
        tracing::info!(
            system = "TaskLifecycle",
            taskId = %from.id(),
            fromState = %from.record.status(),
            toState = %changed.row.record.status(),
            trigger = step.method,
            duration = began.elapsed().as_secs_f64() * 1000.0,
            "State transition"
        );
    }

    /// Lets the files follow the registry; the number of the last line that is written, if they did.
    async fn follow(&self, row: &TaskRow, token: u64) -> Option<u64> {
        let files = self.0.layers.task(row.id().clone());
        let followed = match row.record.status() {
            TaskStatus::Deleted => files.run(|files| files.remove()).await.map(|()| None),
            _ => publish(&*self.0.coordinator, &files, row, Some(token))
                .await
                .map(Some),
        };
        followed.unwrap_or_else(|error| {
            tracing::warn!(taskId = %row.id(), %error, "the files of a task do not follow yet");
            None
        })
    }

    /// Says who was in the way of a step that did not end.
    async fn too_long(&self, id: &TaskId, step: &Step<'_>) -> TaskError {
        let resource = TaskRow::lock_name(id);
        let read = timeout(
            Duration::from_secs(1),
            self.0.coordinator.resource(resource.clone()),
        )
        .await;
        if let Ok(Ok(read)) = read {
            for held in read.held {
                let (owner, since) = (&*held.holder.owner, held.acquired_at);
                tracing::warn!(resource, owner, %since, method = step.method, "a step took too long while this lock was held");
            }
        }
        TaskError::LockTimeout { resource }
    }
}

/// Whoever takes a step without saying who.
const SYSTEM: &str = "system";

/// A step that somebody wants to take.
struct Step<'a> {
    method: &'static str,
    who: String,
    about: Value,
    points: Option<(HookPoint, HookPoint)>,
    /// The step as the typed task makes it; `None` from where there is none.
    next: &'a (dyn Fn(Typed) -> Option<TaskTransition> + Send + Sync),
}

impl Step<'_> {
    fn of(&self, row: &TaskRow) -> Result<TaskTransition, TaskError> {
        let typed = row.record.clone().typed().ok();
        typed
            .and_then(self.next)
            .ok_or_else(|| TaskError::InvalidTransition {
                id: row.id().to_string(),
                from: row.record.status().as_str(),
                method: self.method,
            })
    }
}

fn unfiled(id: &TaskId, error: &LayerError) -> TaskError {
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
