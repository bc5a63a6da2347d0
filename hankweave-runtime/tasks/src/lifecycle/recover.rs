//! Updates of the files from the registry: by [`Lifecycle::recover`] at the start of an embedder, which also finds running tasks without a worker; by
//! [`Lifecycle::follow_up`] from time to time in each worker; and by [`Lifecycle::follow_created`] after a bulk creation (TASK-24, TASK-33, TASK-74).

use std::collections::BTreeSet;
use std::time::Duration;

use hankweave_core::id::TaskId;
use hankweave_task_model::TaskError;
use hankweave_task_model::registry::TaskRow;

use super::{Lifecycle, SYSTEM, TaskStep, layer_error};
use crate::layers::TaskFiles;
use crate::publish::publish;

/// Maximum number of tasks with unwritten files for one call; the next call takes the others.
const MOST: u32 = 10_000;

/// Time after which an unchanged running task without a holder counts as an orphan.
pub const ORPHAN_AFTER: Duration = Duration::from_secs(300);

/// Error of a task whose worker has ended.
pub const ORPHANED: &str = "ORPHANED";

/// Action for running tasks without a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrphanAction {
    /// Fail them with `ORPHANED`.
    Fail,
    /// Only report them.
    Report,
}

/// Findings and repairs of a start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveryReport {
    /// Unfinished files of earlier writers that were removed, as paths relative to the root.
    pub swept: Vec<String>,
    /// Tasks whose log lacked lines of the registry, or whose state had another status.
    pub followed: Vec<TaskId>,
    /// Deleted tasks whose files still existed.
    pub removed: Vec<TaskId>,
    /// Running tasks without a holder.
    pub orphans: Vec<TaskId>,
}

impl Lifecycle {
    /// Sweeps, writes missing log lines, updates states, and then looks for orphans. Skips tasks that have a holder, and leaves files that are on another
    /// machine to that machine.
    ///
    /// # Errors
    ///
    /// Returns the error of the registry, or of reading the folder of all tasks. Problems with one task are logged.
    pub async fn recover(
        &self,
        orphans: OrphanAction,
        orphan_after: Duration,
    ) -> Result<RecoveryReport, TaskError> {
        let layers = self.shared.layers.clone();
        let blocking = layers.blocking();
        let (swept, folders) = blocking
            .run(move || Ok((layers.sweep()?, layers.tasks()?)))
            .await
            .map_err(|error: crate::layers::LayerError| TaskError::StateLoadFailed(error.to_string()))?;
        let mut report = RecoveryReport {
            swept: swept.removed,
            ..RecoveryReport::default()
        };
        for row in self.shared.coordinator.unwritten(MOST).await? {
            if !self.is_elsewhere(&row).await {
                self.repair(row.id(), &mut report).await;
            }
        }
        for id in folders {
            self.compare(&id, &mut report).await?;
        }
        for row in self.shared.coordinator.orphans(orphan_after).await? {
            tracing::warn!(taskId = %row.id(), since = %row.updated_at, "a running task has no worker");
            if orphans == OrphanAction::Fail {
                self.fail_orphan(&row).await;
            }
            report.orphans.push(row.id().clone());
        }
        Ok(report)
    }

    /// Updates the files of this machine whose worker ended before it had written them (TASK-74). Skips tasks that have a holder, and tasks whose
    /// folder is on another machine.
    ///
    /// # Errors
    ///
    /// Returns the error of the registry, or of reading the folder of all tasks. Problems with one task are logged.
    pub async fn follow_up(&self) -> Result<Vec<TaskId>, TaskError> {
        let unwritten = self.shared.coordinator.unwritten(MOST).await?;
        let mut report = RecoveryReport::default();
        if unwritten.is_empty() {
            return Ok(report.followed);
        }
        let layers = self.shared.layers.clone();
        let local_ids = layers.blocking().run(move || layers.tasks()).await;
        let local_ids = local_ids
            .map_err(|error: crate::layers::LayerError| TaskError::StateLoadFailed(error.to_string()))?;
        let local_ids: BTreeSet<TaskId> = local_ids.into_iter().collect();
        for row in unwritten.iter().filter(|row| local_ids.contains(row.id())) {
            self.repair(row.id(), &mut report).await;
        }
        Ok(report.followed)
    }

    /// Writes the files of tasks that were created together. Skips those that a worker already has, because the worker writes them.
    pub async fn follow_created(&self, rows: &[TaskRow]) {
        let mut report = RecoveryReport::default();
        // The least urgent task comes first. Workers skip a task that is locked here, so the most urgent one would lose its turn to a less urgent one.
        let mut rows: Vec<&TaskRow> = rows.iter().rev().collect();
        rows.sort_by_key(|row| row.priority);
        for row in rows {
            self.repair(row.id(), &mut report).await;
        }
    }

    /// Compares the folder of a task with the registry. Removes the folder of a deleted task.
    async fn compare(&self, id: &TaskId, report: &mut RecoveryReport) -> Result<(), TaskError> {
        let Some(row) = self.shared.coordinator.task(id.clone()).await? else {
            let files = self.shared.layers.task(id.clone());
            if let Some(deleted) = self.shared.coordinator.deleted_at(id.clone()).await? {
                // Files of a task that was created after the deletion belong to another registry.
                let created = files.run(TaskFiles::created).await.ok().flatten();
                if created.is_some_and(|created| created > deleted) {
                    return Ok(());
                }
                match files.run(|files| files.remove()).await {
                    Ok(()) => report.removed.push(id.clone()),
                    Err(error) => tracing::warn!(taskId = %id, %error, "the files of a deleted task stay"),
                }
            }
            return Ok(());
        };
        let files = self.shared.layers.task_of(&row);
        match files.run(|files| files.load_state()).await {
            Ok(state) => {
                let (registry, found) = (row.record.status(), state.map(|state| state.status));
                if found != Some(registry) {
                    tracing::warn!(taskId = %id, ?found, %registry, "a state file differs from the registry; the registry counts");
                    self.repair(id, report).await;
                }
            }
            Err(error) => tracing::warn!(taskId = %id, %error, "a state cannot be read"),
        }
        Ok(())
    }

    /// Updates the files of one task, under its lock.
    /// Whether the files of a task are on another machine, which alone can write them.
    async fn is_elsewhere(&self, row: &TaskRow) -> bool {
        let (layers, row) = (self.shared.layers.clone(), row.clone());
        let blocking = layers.blocking();
        let missing = blocking.run(move || layers.missing(&row)).await;
        missing.is_some_and(|missing| !missing.is_of_machine)
    }

    async fn repair(&self, id: &TaskId, report: &mut RecoveryReport) {
        match self.try_repair(id).await {
            Ok(()) => report.followed.push(id.clone()),
            Err(TaskError::ResourceLocked { .. }) => {}
            Err(error) => tracing::warn!(taskId = %id, %error, "the files of a task do not follow yet"),
        }
    }

    async fn try_repair(&self, id: &TaskId) -> Result<(), TaskError> {
        let (mut guard, row) = self.lock(id, SYSTEM).await?;
        let (files, token) = (self.files_of(&row).await, guard.token());
        let published = guard
            .keep(publish(&*self.shared.coordinator, &files, &row, Some(token)))
            .await;
        let written = published.and_then(|written| written.map_err(|error| layer_error(id, &error)));
        let written_seq = written.as_ref().ok().map(|seq| (id.clone(), *seq));
        guard.release_or_log(written_seq).await;
        written.map(drop)
    }

    /// Returns a requeue in place of the failure of an orphan, if the orphan's run has completed on this machine. The next worker finds nothing to
    /// run and completes the task.
    pub(crate) async fn spared_if_completed(&self, row: &TaskRow, step: TaskStep) -> TaskStep {
        let is_failure = matches!(step, TaskStep::Fail(_));
        let files = self.files_of(row).await;
        let has_completed = is_failure
            && files
                .run(|files| Ok(files.has_completed_run()))
                .await
                .unwrap_or(false);
        match has_completed {
            true => TaskStep::Requeue(ORPHANED.to_owned()),
            false => step,
        }
    }

    async fn fail_orphan(&self, row: &TaskRow) {
        let id = row.id();
        let step = self
            .spared_if_completed(row, TaskStep::Fail(ORPHANED.into()))
            .await;
        if let Err(error) = self.take(id, &step).await {
            // A worker was quicker, or the next start tries again.
            tracing::warn!(taskId = %id, %error, "an orphan was not failed");
        }
    }
}
