//! Agents that work on tasks through this server (CLI-57). The server holds the lock of each task and renews its lease; it releases the lock when the
//! agent is detached, when the task is cancelled, or when the server itself ends.

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

/// Interval of checks whether a task was cancelled; a hint of the registry starts one earlier.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// One agent that works on one task.
#[derive(Clone)]
pub(super) struct Attachment {
    pub(super) agent: AgentId,
    /// Changes the status of the task, under the lock that this server holds.
    pub(super) lifecycle: Lifecycle,
    /// Cancelled to end the attachment.
    leave: CancellationToken,
    /// Cancelled once the attachment has ended, for any reason.
    pub(super) ended: CancellationToken,
    /// Cancelled once the lock of the task is released.
    released: CancellationToken,
}

/// All attachments of this server.
#[derive(Clone)]
pub(super) struct Attachments {
    registry: Registry,
    all: Arc<Mutex<BTreeMap<TaskId, Attachment>>>,
    /// The async tasks that hold the locks, one for each attachment.
    keepers: TaskTracker,
}

impl Attachments {
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
        let found = all.get(id).filter(|attachment| !attachment.ended.is_cancelled());
        found.cloned()
    }

    /// Locks a pending task for an agent and starts it. The task `new`, if given, is created first, under that lock, so that no worker claims it in between.
    pub(super) async fn attach(
        &self,
        id: &TaskId,
        agent: AgentId,
        new: Option<NewTask>,
    ) -> Result<TaskRow, TaskError> {
        let owner = format!("lifecycle:{}", agent.as_str());
        let locks = &self.registry.locks;
        let request = LockRequest {
            // The lock is refused if this task does not exist, as a new one does not yet.
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
            ended: CancellationToken::new(),
            released: CancellationToken::new(),
        };
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(id.clone(), attachment.clone());
        self.keepers
            .spawn(self.clone().keep(id.clone(), attachment, guard));
        Ok(row)
    }

    /// Holds the lock until the agent leaves, the task is cancelled, or the lease is lost.
    async fn keep(self, id: TaskId, attachment: Attachment, mut guard: LockGuard) {
        let work = async {
            tokio::select! {
                () = attachment.leave.cancelled() => {}
                () = called_off(&*self.registry.coordinator, &id, CHECK_INTERVAL) => {
                    // Stops the command that the agent may run in the task, before the task is cancelled.
                    attachment.ended.cancel();
                    if let Err(error) = attachment.lifecycle.cancel(&id).await {
                        tracing::warn!(taskId = %id, %error, "a cancelled task still runs");
                    }
                }
            }
        };
        if let Err(error) = guard.keep(work).await {
            tracing::warn!(taskId = %id, %error, "an agent has lost its task");
        }
        attachment.ended.cancel();
        guard.release_or_log(None).await;
        // Once the lock is free or lost, another agent may have been attached to the task; that attachment stays.
        self.all
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|_, attachment| !attachment.ended.is_cancelled());
        attachment.released.cancel();
    }

    /// Ends the attachment of a task, and waits until its lock is released. The caller has changed the status of the task before.
    pub(super) async fn leave(&self, id: &TaskId) {
        let Some(attachment) = self.get(id) else { return };
        attachment.leave.cancel();
        attachment.released.cancelled().await;
    }

    /// Ends all attachments. Tasks that still run are requeued.
    pub(super) async fn close(&self) {
        let all: Vec<(TaskId, Attachment)> = {
            let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
            let working = all
                .iter()
                .filter(|(_, attachment)| !attachment.ended.is_cancelled());
            let owned = working.map(|(id, attachment)| (id.clone(), attachment.clone()));
            owned.collect()
        };
        for (id, attachment) in all {
            let step = TaskStep::Requeue("DETACHED".to_owned());
            if let Err(error) = attachment.lifecycle.take(&id, &step).await {
                tracing::warn!(taskId = %id, %error, "a task was left running");
            }
            attachment.leave.cancel();
        }
        self.keepers.close();
        self.keepers.wait().await;
    }
}

/// Creates the task `new`, if given, and starts the task for the agent.
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

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use tokio::time::timeout;

    use super::*;
    use crate::args::RegistryArgs;

    // covers: CLI-57
    #[tokio::test]
    async fn a_task_is_free_as_soon_as_its_agent_has_left_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("registry.db");
        let place = RegistryArgs {
            registry: Some(format!("sqlite:{}", file.display())),
            tasks: Some(folder.path().join("tasks")),
        };
        let registry = Registry::open(&place).await.unwrap();
        let attachments = Attachments::new(registry.clone());
        let (id, agent) = (TaskId::new("fix-3").unwrap(), AgentId::new("coder").unwrap());
        let new = NewTask::new(id.clone());
        attachments.attach(&id, agent.clone(), Some(new)).await.unwrap();
        let lifecycle = attachments.get(&id).unwrap().lifecycle;
        let step = TaskStep::Requeue("DETACHED".to_owned());
        lifecycle.take(&id, &step).await.unwrap();

        // Nothing can be written now, so the lock cannot be released.
        let writer = rusqlite::Connection::open(&file).unwrap();
        writer.execute_batch("BEGIN IMMEDIATE").unwrap();
        let mut leaving = pin!(attachments.leave(&id));
        let left = timeout(Duration::from_millis(100), &mut leaving).await;
        assert!(left.is_err(), "the lock is still held");
        writer.execute_batch("COMMIT").unwrap();
        leaving.await;
        attachments.attach(&id, agent, None).await.unwrap();
        assert!(attachments.get(&id).is_some());
        attachments.close().await;
        registry.close().await;
    }
}
