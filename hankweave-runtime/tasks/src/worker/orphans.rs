//! Tasks of workers that are gone (TASK-56).

use std::sync::Arc;
use std::time::Duration;

use hankweave_core::attempt::Attempt;
use hankweave_task_model::lock::LockMode;
use hankweave_task_model::registry::{Change, TaskRow};
use hankweave_task_model::task::{Fail, TaskRecord, TaskTransition};
use hankweave_task_model::{Holder, TaskError};

use super::lease::is_lost;
use super::options::Orphans;
use crate::coordinator::{Acquire, Coordinator, Release};
use crate::layers::Layers;
use crate::publish::publish;

/// What a worker needs to look after orphans.
pub(super) struct Guardian<'w> {
    pub(super) coordinator: &'w Arc<dyn Coordinator>,
    pub(super) layers: &'w Layers,
    pub(super) holder: Holder,
    pub(super) lease: Duration,
    pub(super) orphan_after: Duration,
    pub(super) orphans: Orphans,
}

impl Guardian<'_> {
    /// Takes every orphan on; another worker may be faster with some.
    pub(super) async fn look(&self) -> Result<(), TaskError> {
        if self.orphans == Orphans::Leave {
            return Ok(());
        }
        for row in self.coordinator.orphans(self.orphan_after).await? {
            match self.take(&row).await {
                Err(TaskError::ResourceLocked { .. }) => {}
                Err(error) if is_lost(&error) => {}
                taken => taken?,
            }
        }
        Ok(())
    }

    async fn take(&self, orphan: &TaskRow) -> Result<(), TaskError> {
        let resource = TaskRow::lock_name(orphan.id());
        let acquired = self.coordinator.acquire(Acquire {
            resource: resource.clone(),
            holder: self.holder.clone(),
            mode: LockMode::Exclusive,
            lease: Some(self.lease),
            in_order: false,
            task: Some(orphan.id().clone()),
        });
        let acquired = acquired.await?;
        let taken = match acquired.row {
            Some(row) => self.settle(&row, acquired.held.token).await,
            None => Ok(0),
        };
        let release = Release {
            resource,
            holder: self.holder.clone(),
            written: taken.as_ref().ok().map(|seq| (orphan.id().clone(), *seq)),
        };
        self.coordinator.release(release).await?;
        taken.map(drop)
    }

    /// Under the lock: it may have been changed since it was found.
    async fn settle(&self, row: &TaskRow, token: u64) -> Result<u64, TaskError> {
        let TaskRecord::Running(running) = &row.record else {
            return Ok(row.written_seq);
        };
        let steps = self.steps(running.attempt);
        let changed = self.coordinator.change(Change {
            id: row.id().clone(),
            expected_version: row.version,
            token,
            steps,
        });
        let row = changed.await?.row;
        tracing::warn!(taskId = %row.id(), status = %row.record.status(), "the worker of the task is gone");
        let files = self.layers.task(row.id().clone());
        let published = publish(&**self.coordinator, &files, &row, Some(token)).await;
        // The registry has it; the files follow with the next step.
        Ok(published.unwrap_or_else(|error| {
            tracing::warn!(taskId = %row.id(), %error, "the files of the task do not follow yet");
            row.written_seq
        }))
    }

    fn steps(&self, attempt: Attempt) -> Vec<TaskTransition> {
        let fail = TaskTransition::Fail(Fail {
            error: "ORPHANED".to_owned(),
        });
        match self.orphans {
            Orphans::Requeue { tries } if u64::from(attempt.number()) < u64::from(tries) => {
                vec![fail, TaskTransition::Resume]
            }
            _ => vec![fail],
        }
    }
}
