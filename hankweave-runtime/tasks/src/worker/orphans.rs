//! Treatment of running tasks whose workers have ended, before a worker claims new tasks (TASK-56).

use std::time::Duration;

use hankweave_task_model::registry::TaskRow;
use hankweave_task_model::{LogEntry, TaskError, TaskExecution, executions};

use super::options::OrphanPolicyConfig;
use crate::coordinator::Coordinator;
use crate::lifecycle::{Lifecycle, ORPHANED, TaskStep};

/// Requeues or fails every orphan and calls `reporter` with it. Another worker may be faster with some orphans.
pub(super) async fn handle_orphans(
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
        let step = match orphans {
            OrphanPolicyConfig::Requeue { tries } => {
                let lines = coordinator.log_lines(row.id().clone(), 0).await?;
                step_for_lost(lost_in_a_row(&lines), tries)
            }
            _ => TaskStep::Fail(ORPHANED.into()),
        };
        let step = lifecycle.spared_if_completed(&row, step).await;
        match lifecycle.take(row.id(), &step).await {
            Ok(row) => {
                tracing::info!(taskId = %row.id(), status = %row.record.status(), "the worker of the task has ended");
                reporter(&row);
            }
            // The task is no orphan any more, or a hook refuses.
            Err(
                TaskError::InvalidTransition { .. }
                | TaskError::HookVeto { .. }
                | TaskError::HookTimeout { .. },
            ) => {}
            // Another worker was faster.
            Err(error) if is_lost(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Whether the error means that another worker has the task.
pub(super) fn is_lost(error: &TaskError) -> bool {
    matches!(
        error,
        TaskError::LockTimeout { .. }
            | TaskError::StaleToken { .. }
            | TaskError::VersionConflict { .. }
            | TaskError::ResourceLocked { .. }
            | TaskError::LockNotHeld { .. }
            | TaskError::TaskNotFound(_)
    )
}

/// Returns the number of consecutive attempts that lost their workers, including the newest attempt, which has just done so. An attempt with another
/// outcome, or a resume by a user, ends the row.
fn lost_in_a_row(lines: &[LogEntry]) -> u32 {
    let attempts = executions(lines);
    let is_lost = |attempt: &&TaskExecution| attempt.requeued && attempt.error.as_deref() == Some(ORPHANED);
    let earlier = attempts.iter().rev().skip(1).take_while(is_lost);
    earlier.fold(1, |number, _| number + 1)
}

/// Returns a requeue for the first attempts in a row that lost their workers, and a failure from attempt `tries` on.
fn step_for_lost(lost: u32, tries: u32) -> TaskStep {
    match lost < tries {
        true => TaskStep::Requeue(ORPHANED.to_owned()),
        false => {
            let cause = format!(
                "{ORPHANED}: {lost} of {tries} attempts in a row have lost their workers, so it is not requeued again"
            );
            TaskStep::Fail(cause.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use hankweave_core::time::Timestamp;
    use hankweave_task_model::LogLevel;
    use serde_json::json;

    use super::*;

    // covers: TASK-56
    #[test]
    fn attempts_that_lose_their_workers_are_counted_in_a_row() {
        let mut lines = Vec::new();
        let mut add = |millis, from: &str, to: &str, error: Option<&str>| {
            let mut data = json!({"fromStatus": from, "toStatus": to});
            if let Some(error) = error {
                data["error"] = error.into();
            }
            lines.push(LogEntry {
                timestamp: Timestamp::from_millis(millis),
                level: LogLevel::Info,
                message: String::new(),
                data: Some(data),
                seq: None,
            });
            lost_in_a_row(&lines)
        };
        let mut lost = Vec::new();
        for (at, end) in [
            (0, Some("ORPHANED")),
            (10, Some("ORPHANED")),
            (20, None),
            (30, Some("ORPHANED")),
        ] {
            lost.push(add(at, "pending", "running", None));
            match end {
                // Requeued in one commit.
                Some(error) => {
                    add(at + 5, "running", "failed", Some(error));
                    add(at + 5, "failed", "pending", None);
                }
                // Cancelled, and resumed by a user.
                None => {
                    add(at + 5, "running", "cancelled", None);
                    add(at + 7, "cancelled", "pending", None);
                }
            }
        }
        lost.push(add(40, "pending", "running", None));
        assert_eq!(lost, [1, 2, 3, 1, 2]);
        assert_eq!(step_for_lost(4, 5), TaskStep::Requeue("ORPHANED".to_owned()));
        let failed = step_for_lost(5, 5);
        assert!(failed.ends_orphan());
        let cause = "ORPHANED: 5 of 5 attempts in a row have lost their workers, so it is not requeued again";
        assert_eq!(failed, TaskStep::Fail(cause.into()));
    }
}
