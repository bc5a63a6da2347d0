//! One step of a task, or several that are taken at once.

use hankweave_core::id::TaskId;
use hankweave_core::time::Timestamp;
use serde_json::{Value, json};

use crate::error::TaskError;
use crate::logs::{LogEntry, LogLevel};
use crate::registry::{TaskCost, TaskRow};
use crate::task::{TaskRecord, TaskStatus, TaskTransition};

/// Steps that are taken at once, or not at all.
#[derive(Debug, Clone, PartialEq)]
pub struct RegistryChange {
    /// The task.
    pub id: TaskId,
    /// The version that was read under the lock.
    pub expected_version: u64,
    /// The token of the lock on the task.
    pub token: u64,
    /// The steps, at least one.
    pub steps: Vec<TaskTransition>,
    /// Cost of the task so far, from its worker.
    pub cost: Option<TaskCost>,
}

/// A task behind a change.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangedTask {
    /// The row as it is now; its status is `deleted` when the task is gone and its id stays taken.
    pub row: TaskRow,
    /// Lines of its log, one for each step, numbered. A deleted task has no log.
    pub lines: Vec<LogEntry>,
}

impl TaskRow {
    /// Applies a change to the task (TASK-20, TASK-21). The keeper of the locks checks whether the token's holder lives.
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::StaleToken`], [`TaskError::VersionConflict`], [`TaskError::InvalidTransition`], or [`TaskError::InvalidArgument`] for a change without
    /// steps.
    pub fn change(&self, change: &RegistryChange, now: Timestamp) -> Result<ChangedTask, TaskError> {
        let resource = || Self::lock_name(&change.id);
        if change.token < self.fencing_token {
            let (resource, token) = (resource(), change.token);
            return Err(TaskError::StaleToken { resource, token });
        }
        if change.expected_version != self.version {
            let (resource, version) = (resource(), self.version);
            return Err(TaskError::VersionConflict { resource, version });
        }
        if change.steps.is_empty() {
            return Err(TaskError::InvalidArgument("a change has at least one step"));
        }
        let mut row = self.clone();
        row.updated_at = now;
        row.fencing_token = change.token;
        row.cancel_requested_at = None;
        if let Some(cost) = change.cost {
            row.record = super::patch::with_fields(row.record, cost.fields())?;
        }
        let steps = change.steps.iter();
        let lines = steps
            .map(|step| row.step(step, now))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(ChangedTask {
            row,
            lines: lines.into_iter().flatten().collect(),
        })
    }

    fn step(&mut self, step: &TaskTransition, now: Timestamp) -> Result<Option<LogEntry>, TaskError> {
        let from = self.record.status();
        let refused = |_| TaskError::InvalidTransition {
            id: self.id().as_str().to_owned(),
            from: from.as_str(),
            method: step.method(),
        };
        let mut record = self.record.clone().apply(step.clone()).map_err(refused)?;
        if let TaskTransition::Fail(fail) = step {
            record = with_metadata(record, "error", json!(fail.error))?;
        }
        self.record = record;
        self.version += 1;
        self.status_version = self.version;
        Ok(told(step, from).map(|(level, message, data)| {
            self.log_seq += 1;
            LogEntry {
                timestamp: now,
                level,
                message,
                data: Some(data),
                seq: Some(self.log_seq),
            }
        }))
    }
}

/// The task with one more note.
fn with_metadata(record: TaskRecord, name: &str, value: Value) -> Result<TaskRecord, TaskError> {
    let mut metadata = record.metadata().clone();
    metadata.insert(name.to_owned(), value);
    super::patch::with_fields(record, [("metadata", Some(Value::Object(metadata)))])
}

/// Returns the log line of a step (TASK-91); none for the last one, which removes the log. Each line has the task's status, because a reader that has lost the state
/// reads that from its log.
fn told(step: &TaskTransition, from: TaskStatus) -> Option<(LogLevel, String, Value)> {
    let to = step.target().as_str();
    let from = from.as_str();
    Some(match step {
        TaskTransition::Start(start) => (
            LogLevel::Info,
            format!("Task started by agent {}", start.agent_id),
            json!({"fromStatus": from, "toStatus": to, "agentId": start.agent_id}),
        ),
        TaskTransition::Complete(complete) => (
            LogLevel::Info,
            "Task completed successfully".to_owned(),
            json!({"result": complete.result, "fromStatus": from, "toStatus": to}),
        ),
        TaskTransition::Fail(fail) => (
            LogLevel::Error,
            "Task failed".to_owned(),
            json!({"error": fail.error, "fromStatus": from, "toStatus": to}),
        ),
        TaskTransition::Cancel => (
            LogLevel::Warning,
            "Task cancelled".to_owned(),
            json!({"fromStatus": from, "toStatus": to}),
        ),
        TaskTransition::Resume => (
            LogLevel::Info,
            "Task resumed".to_owned(),
            json!({"fromStatus": from, "toStatus": to}),
        ),
        TaskTransition::Delete => return None,
    })
}
