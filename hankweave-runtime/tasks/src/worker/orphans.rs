//! Tasks of workers that have ended (TASK-56).

use std::time::Duration;

use hankweave_task_model::TaskError;
use hankweave_task_model::registry::TaskRow;
use hankweave_task_model::task::TaskRecord;

use super::job::is_lost;
use super::options::OrphanPolicyConfig;
use crate::coordinator::Coordinator;
use crate::lifecycle::{Lifecycle, ORPHANED, TaskStep};

/// Takes every orphan on and reports it; another worker may be faster with some.
pub(super) async fn look_after(
    coordinator: &dyn Coordinator,
    lifecycle: &Lifecycle,
    orphan_after: Duration,
    orphans: OrphanPolicyConfig,
    reporter: &(dyn Fn(&TaskRow) + Send + Sync),
) -> Result<(), TaskError> {
    if orphans == OrphanPolicyConfig::Leave {
        return Ok(());
    }
    for row in coordinator.orphans(orphan_after).await? {
        let Some(step) = step(&row, orphans) else { continue };
        let step = lifecycle.spared_if_completed(&row, step).await;
        match lifecycle.take(row.id(), &step).await {
            Ok(row) => {
                tracing::info!(taskId = %row.id(), status = %row.record.status(), "the worker of the task has ended");
                reporter(&row);
            }
            Err(
                TaskError::InvalidTransition { .. }
                | TaskError::HookVeto { .. }
                | TaskError::HookTimeout { .. },
            ) => {}
            Err(error) if is_lost(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn step(row: &TaskRow, orphans: OrphanPolicyConfig) -> Option<TaskStep> {
    let TaskRecord::Running(running) = &row.record else {
        return None;
    };
    Some(match orphans {
        OrphanPolicyConfig::Requeue { tries } if u64::from(running.attempt.number()) < u64::from(tries) => {
            TaskStep::Requeue(ORPHANED.to_owned())
        }
        _ => TaskStep::Fail(ORPHANED.into()),
    })
}
