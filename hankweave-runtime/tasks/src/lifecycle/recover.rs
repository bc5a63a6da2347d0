//! Start-up: files follow the registry again, and running tasks without a worker are found (TASK-24, TASK-33, TASK-74).

use std::collections::BTreeSet;
use std::time::Duration;

use hankweave_core::id::TaskId;
use hankweave_task_model::TaskError;

use super::{Lifecycle, SYSTEM, unfiled};
use crate::publish::publish;

/// Number of tasks checked in one start; the others follow at the next one.
const MOST: u32 = 10_000;

/// How long a running task that nobody holds is left alone.
pub const ORPHAN_AFTER: Duration = Duration::from_secs(300);

/// The error of a task whose worker is gone.
pub const ORPHANED: &str = "ORPHANED";

/// Action for running tasks without a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrphanAction {
    /// They fail with `ORPHANED`.
    Fail,
    /// They are only told of.
    Report,
}

/// Findings and repairs of a start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Unfinished files of earlier writers that were removed; as paths relative to the root.
    pub swept: Vec<String>,
    /// Tasks whose log lacked lines of the registry, or whose state said another status.
    pub followed: Vec<TaskId>,
    /// Tasks that were deleted and whose files were still there.
    pub removed: Vec<TaskId>,
    /// Running tasks that nobody holds.
    pub orphans: Vec<TaskId>,
}

impl Lifecycle {
    /// Sweeps, writes missing log lines, lets states follow, and then looks for orphans. Tasks that somebody holds are left to whoever does.
    ///
    /// # Errors
    ///
    /// Returns what the registry says, or why the folder of all tasks cannot be read. Trouble with one task is logged.
    pub async fn recover(
        &self,
        orphans: OrphanAction,
        orphan_after: Duration,
    ) -> Result<RecoveryReport, TaskError> {
        let layers = self.0.layers.clone();
        let blocking = layers.blocking();
        let (swept, folders) = blocking
            .run(move || Ok((layers.sweep()?, layers.tasks()?)))
            .await
            .map_err(|error: crate::layers::LayerError| TaskError::StateLoadFailed(error.to_string()))?;
        let mut recovered = RecoveryReport {
            swept: swept.removed,
            ..RecoveryReport::default()
        };
        for row in self.0.coordinator.unwritten(MOST).await? {
            self.mend(row.id(), &mut recovered).await;
        }
        for id in folders {
            self.compare(&id, &mut recovered).await?;
        }
        for row in self.0.coordinator.orphans(orphan_after).await? {
            tracing::warn!(taskId = %row.id(), since = %row.updated_at, "a running task is held by nobody");
            if orphans == OrphanAction::Fail {
                self.fail_orphan(row.id()).await;
            }
            recovered.orphans.push(row.id().clone());
        }
        Ok(recovered)
    }

    /// Lets the files of this machine follow whose worker was gone before it had written them (TASK-74). Those that somebody holds are left to whoever does, and
    /// those whose folder is elsewhere to the machine that has it.
    ///
    /// # Errors
    ///
    /// Returns what the registry says, or why the folder of all tasks cannot be read. Trouble with one task is logged.
    pub async fn follow_up(&self) -> Result<Vec<TaskId>, TaskError> {
        let unwritten = self.0.coordinator.unwritten(MOST).await?;
        let mut recovered = RecoveryReport::default();
        if unwritten.is_empty() {
            return Ok(recovered.followed);
        }
        let layers = self.0.layers.clone();
        let here = layers.blocking().run(move || layers.tasks()).await;
        let here =
            here.map_err(|error: crate::layers::LayerError| TaskError::StateLoadFailed(error.to_string()))?;
        let here: BTreeSet<TaskId> = here.into_iter().collect();
        for row in unwritten.iter().filter(|row| here.contains(row.id())) {
            self.mend(row.id(), &mut recovered).await;
        }
        Ok(recovered.followed)
    }

    async fn compare(&self, id: &TaskId, recovered: &mut RecoveryReport) -> Result<(), TaskError> {
        let files = self.0.layers.task(id.clone());
        let Some(row) = self.0.coordinator.task(id.clone()).await? else {
            if self.0.coordinator.deleted_at(id.clone()).await?.is_some() {
                match files.run(|files| files.remove()).await {
                    Ok(()) => recovered.removed.push(id.clone()),
                    Err(error) => tracing::warn!(taskId = %id, %error, "the files of a deleted task stay"),
                }
            }
            return Ok(());
        };
        match files.run(|files| files.load_state()).await {
            Ok(state) => {
                let (registry, found) = (row.record.status(), state.map(|state| state.status));
                if found != Some(registry) {
                    tracing::warn!(taskId = %id, ?found, %registry, "a state says otherwise than the registry");
                    self.mend(id, recovered).await;
                }
            }
            Err(error) => tracing::warn!(taskId = %id, %error, "a state cannot be read"),
        }
        Ok(())
    }

    /// Lets the files of one task follow, under its lock.
    async fn mend(&self, id: &TaskId, recovered: &mut RecoveryReport) {
        match self.try_mend(id).await {
            Ok(()) => recovered.followed.push(id.clone()),
            Err(TaskError::ResourceLocked { .. }) => {}
            Err(error) => tracing::warn!(taskId = %id, %error, "the files of a task do not follow yet"),
        }
    }

    async fn try_mend(&self, id: &TaskId) -> Result<(), TaskError> {
        let (mut guard, row) = self.lock(id, SYSTEM).await?;
        let (files, token) = (self.0.layers.task(id.clone()), guard.token());
        let published = guard
            .keep(publish(&*self.0.coordinator, &files, &row, Some(token)))
            .await;
        let written = published.and_then(|written| written.map_err(|error| unfiled(id, &error)));
        let noted = written.as_ref().ok().map(|seq| (id.clone(), *seq));
        guard.release_or_log(noted).await;
        written.map(drop)
    }

    async fn fail_orphan(&self, id: &TaskId) {
        if let Err(error) = self.fail(id, ORPHANED.to_owned()).await {
            // Somebody was quicker, or it is tried again at the next start.
            tracing::warn!(taskId = %id, %error, "an orphan was not failed");
        }
    }
}
