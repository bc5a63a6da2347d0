//! Agents that work on tasks through this server (CLI-57). The server holds the lease of each task, and releases it when the agent leaves, when the
//! task is cancelled, or when the server itself ends.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hankweave_core::id::{AgentId, TaskId};
use hankweave_task_model::TaskError;
use hankweave_task_model::lock::LockMode;
use hankweave_task_model::registry::{NewTask, TaskRow};
use hankweave_tasks::coordinator::ExclusiveHold;
use hankweave_tasks::lifecycle::{Lifecycle, TaskStep};
use hankweave_tasks::locks::{DEFAULT_LEASE, LockGuard, LockRequest};
use hankweave_tasks::worker::called_off;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::registry::Registry;

/// Interval of checks, without a hint, whether a task was cancelled.
const LOOK: Duration = Duration::from_secs(1);

/// One agent that works on one task.
#[derive(Clone)]
pub(super) struct Attachment {
    pub(super) agent: AgentId,
    /// Takes the steps of the task under the lease that this server has.
    pub(super) lifecycle: Lifecycle,
    /// Ends it.
    leave: CancellationToken,
    /// Cancelled once it has ended, for any reason.
    pub(super) is_over: CancellationToken,
}

/// All of them.
#[derive(Clone)]
pub(super) struct Attached {
    registry: Registry,
    all: Arc<Mutex<BTreeMap<TaskId, Attachment>>>,
    keepers: TaskTracker,
}

impl Attached {
    pub(super) fn new(registry: Registry) -> Self {
        Self {
            registry,
            all: Arc::default(),
            keepers: TaskTracker::new(),
        }
    }

    /// Returns the attachment of a task, if it has one.
    pub(super) fn get(&self, id: &TaskId) -> Option<Attachment> {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let found = all.get(id).filter(|one| !one.is_over.is_cancelled());
        found.cloned()
    }

    /// Takes a pending task for an agent and starts it. A new task is created under the lock of its attempt, so no worker claims it in between.
    pub(super) async fn attach(
        &self,
        id: &TaskId,
        agent: AgentId,
        new: Option<NewTask>,
    ) -> Result<TaskRow, TaskError> {
        let owner = format!("lifecycle:{}", agent.as_str());
        let locks = &self.registry.locks;
        let request = LockRequest {
            task: new.is_none().then(|| id.clone()),
            ..locks.request(TaskRow::lock_name(id), &owner, LockMode::Exclusive)
        };
        let guard = locks.acquire(request).await?.guard;
        let lifecycle = self.registry.lifecycle.with_hold(ExclusiveHold {
            holder: guard.holder().clone(),
            lease: Some(DEFAULT_LEASE),
        });
        let started = start_task(&lifecycle, id, agent.clone(), new).await;
        let Ok(row) = started else {
            guard.release_or_log(None).await;
            return started;
        };
        let attachment = Attachment {
            agent,
            lifecycle,
            leave: CancellationToken::new(),
            is_over: CancellationToken::new(),
        };
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(id.clone(), attachment.clone());
        self.keepers
            .spawn(self.clone().keep(id.clone(), attachment, guard));
        Ok(row)
    }

    /// Holds the lease until the agent leaves, the task is cancelled, or the lease is lost.
    async fn keep(self, id: TaskId, one: Attachment, mut guard: LockGuard) {
        let work = async {
            tokio::select! {
                () = one.leave.cancelled() => {}
                () = called_off(&*self.registry.coordinator, &id, LOOK) => {
                    one.is_over.cancel();
                    if let Err(error) = one.lifecycle.cancel(&id).await {
                        tracing::warn!(taskId = %id, %error, "a cancelled task still runs");
                    }
                }
            }
        };
        if let Err(error) = guard.keep(work).await {
            tracing::warn!(taskId = %id, %error, "an agent has lost its task");
        }
        one.is_over.cancel();
        guard.release_or_log(None).await;
        self.all
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&id);
    }

    /// Lets a task go whose last step here is taken, and waits until it is free.
    pub(super) async fn leave(&self, id: &TaskId) {
        let Some(one) = self.get(id) else { return };
        one.leave.cancel();
        one.is_over.cancelled().await;
    }

    /// Ends all attachments. Tasks that still run are requeued.
    pub(super) async fn close(&self) {
        let all: Vec<(TaskId, Attachment)> = {
            let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
            let working = all.iter().filter(|(_, one)| !one.is_over.is_cancelled());
            working.map(|(id, one)| (id.clone(), one.clone())).collect()
        };
        for (id, one) in all {
            let step = TaskStep::Requeue("DETACHED".to_owned());
            if let Err(error) = one.lifecycle.take(&id, &step).await {
                tracing::warn!(taskId = %id, %error, "a task was left running");
            }
            one.leave.cancel();
        }
        self.keepers.close();
        self.keepers.wait().await;
    }
}

async fn start_task(
    lifecycle: &Lifecycle,
    id: &TaskId,
    agent: AgentId,
    new: Option<NewTask>,
) -> Result<TaskRow, TaskError> {
    if let Some(task) = new {
        lifecycle.create(task).await?;
    }
    lifecycle.take(id, &TaskStep::Attach(agent)).await
}
