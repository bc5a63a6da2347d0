//! Application of one or several steps to a task's row, with the log lines about them. Every registry calls it inside one transaction.

use std::time::Duration;

use hankweave_core::id::TaskId;
use hankweave_core::time::Timestamp;
use serde_json::{Value, json};

use crate::error::TaskError;
use crate::logs::{LogEntry, LogLevel};
use crate::registry::files_location::{FILES_LOCATION, location_value};
use crate::registry::{FilesLocation, Patch, TaskCost, TaskRow};
use crate::task::{Fail, Start, TaskApproval, TaskRecord, TaskStatus, TaskTransition};

/// Key in the log line of a start without a worker.
pub(crate) const BY_HAND: &str = "byHand";

/// Steps that are taken together or not at all.
#[derive(Debug, Clone, PartialEq)]
pub struct RegistryChange {
    /// The task.
    pub id: TaskId,
    /// Version that was read under the lock. The change is refused if the row has another one.
    pub expected_version: u64,
    /// Token of the lock on the task.
    pub token: u64,
    /// Steps, at least one.
    pub steps: Vec<TaskTransition>,
    /// Cost of the task so far, from its worker; `None` keeps the stored cost.
    pub cost: Option<TaskCost>,
    /// Answer of a user, to be noted in the metadata.
    pub approval: Option<TaskApproval>,
    /// User who asked for the steps, if a user did.
    pub by: Option<String>,
    /// Lease of the worker that starts the task, stored with the task so that others can see when a renewal is late.
    pub lease: Option<Duration>,
    /// Folder in which the files of the task are after the change.
    pub files: Patch<FilesLocation>,
}

/// Task after a change.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ChangedTask {
    /// Current row. Its status is `deleted` after a deletion; the id is not free again.
    pub row: TaskRow,
    /// New log lines, one for each step, numbered. A deleted task has no log.
    pub lines: Vec<LogEntry>,
}

/// Key of the newest worker's lease, in milliseconds, in the record's `extra`.
const LEASE: &str = "leaseMs";

/// Key of the user who cancelled the task or asked its worker to, in the record's `extra`.
const CANCELLED_BY: &str = "cancelledBy";

impl TaskRow {
    /// Returns the user who cancelled the task or asked its worker to; `None` if that was not noted, as in rows of older versions.
    #[must_use]
    pub fn cancelled_by(&self) -> Option<&str> {
        self.record.extra().get(CANCELLED_BY)?.as_str()
    }

    /// Returns the row with a request that the worker stop, made by the user `by`. An earlier request stays as it is.
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::TaskUpdateFailed`].
    pub fn with_cancel_request(mut self, by: Option<String>, now: Timestamp) -> Result<Self, TaskError> {
        if self.cancel_requested_at.is_none() {
            self.cancel_requested_at = Some(now);
            self.record = super::patch::with_fields(self.record, [(CANCELLED_BY, by.map(Value::from))])?;
        }
        Ok(self)
    }

    /// Returns the lease of the task's newest worker; `None` if it was not noted, as in rows of older versions.
    #[must_use]
    pub fn lease(&self) -> Option<Duration> {
        let millis = self.record.extra().get(LEASE)?.as_u64()?;
        Some(Duration::from_millis(millis))
    }

    /// Applies a change to the task (TASK-20, TASK-21). The caller checks in its locks that the token's holder is live.
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
        if let Some(lease) = change.lease {
            let millis = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
            row.record = super::patch::with_fields(row.record, [(LEASE, Some(json!(millis)))])?;
        }
        if let files @ Some(_) = location_value(&change.files) {
            row.record = super::patch::with_fields(row.record, [(FILES_LOCATION, files)])?;
        }
        let is_cancel = change.steps.contains(&TaskTransition::Cancel);
        let mut by = change.by.clone();
        // Null removes the user of an earlier request: every change clears the request.
        let mut cancelled_by = Value::Null;
        if is_cancel {
            // A worker that cancels does so for the user who requested it.
            by = by.or_else(|| self.cancelled_by().map(str::to_owned));
            cancelled_by = by.as_deref().map_or(Value::Null, Value::from);
        }
        row.record = super::patch::with_fields(row.record, [(CANCELLED_BY, Some(cancelled_by))])?;
        if let Some(approval) = &change.approval {
            let mut noted = json!(approval);
            noted["at"] = json!(now);
            row.record = with_metadata(row.record, "approval", Some(noted))?;
        }
        let mut lines: Vec<LogEntry> = Vec::new();
        for step in &change.steps {
            lines.extend(row.step(step, (change.approval.as_ref(), by.as_deref()), now)?);
        }
        if let (true, Some(last)) = (self.is_completed_despite_cancel(&change.steps), lines.last_mut()) {
            let by = self
                .cancelled_by()
                .map_or_else(String::new, |by| format!(" of {by}"));
            last.message += &format!("; the cancellation{by} came too late");
        }
        // The first step of a running task ends its attempt.
        let ends_attempt = self.record.status() == TaskStatus::Running;
        if let (true, Some(cost), Some(line)) = (ends_attempt, change.cost, lines.first_mut()) {
            cost.put_attempt_into(line);
        }
        Ok(ChangedTask { row, lines })
    }

    /// Whether these steps complete a task that a user had asked to cancel.
    fn is_completed_despite_cancel(&self, steps: &[TaskTransition]) -> bool {
        let completes = |step: &TaskTransition| matches!(step, TaskTransition::Complete(_));
        self.cancel_requested_at.is_some() && steps.iter().any(completes)
    }

    /// Takes one step and returns its log line; `None` for a deletion. `by` is the user who asked for the step.
    fn step(
        &mut self,
        step: &TaskTransition,
        (approval, by): (Option<&TaskApproval>, Option<&str>),
        now: Timestamp,
    ) -> Result<Option<LogEntry>, TaskError> {
        let from = self.record.status();
        let refused = |_| TaskError::InvalidTransition {
            id: self.id().as_str().to_owned(),
            from: from.as_str(),
            method: step.method(),
        };
        let mut record = self.record.clone().apply(step.clone()).map_err(refused)?;
        if let TaskTransition::Fail(fail) = step {
            record = with_metadata(record, "error", Some(json!(fail.error)))?;
            record = with_metadata(
                record,
                "failure",
                fail.failure.as_ref().map(|failure| json!(failure)),
            )?;
        }
        if let TaskTransition::Complete(_) | TaskTransition::Cancel | TaskTransition::Ask(_) = step {
            // The error of an earlier attempt says nothing about this end, or about the present question.
            for name in ["error", "failure"] {
                record = with_metadata(record, name, None)?;
            }
        }
        self.record = record;
        self.version += 1;
        self.status_version = self.version;
        // A start logs the arguments of its run, such as limits, because they may differ between attempts.
        let arguments = self
            .record
            .metadata()
            .get("run")
            .map(|run| run["arguments"].clone());
        let arguments = arguments.filter(|_| matches!(step, TaskTransition::Start(_)));
        Ok(log_line(step, approval, from).map(|(level, message, mut data)| {
            self.log_seq += 1;
            if let Some(Value::Array(arguments)) = arguments
                && !arguments.is_empty()
            {
                data["arguments"] = arguments.into();
            }
            if let Some(by) = by {
                data["by"] = by.into();
            }
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

/// Returns the record with `value` under this name in its metadata; `None` removes the name.
fn with_metadata(record: TaskRecord, name: &str, value: Option<Value>) -> Result<TaskRecord, TaskError> {
    let mut metadata = record.metadata().clone();
    match value {
        Some(value) => drop(metadata.insert(name.to_owned(), value)),
        None => drop(metadata.shift_remove(name)),
    }
    super::patch::with_fields(record, [("metadata", Some(Value::Object(metadata)))])
}

/// Returns the log line of a step (TASK-91); none for a deletion, which removes the log. Each line has the task's status, because a reader that has
/// lost the state recovers the status from the log.
fn log_line(
    step: &TaskTransition,
    approval: Option<&TaskApproval>,
    from: TaskStatus,
) -> Option<(LogLevel, String, Value)> {
    let to = step.target().as_str();
    let from = from.as_str();
    Some(match step {
        TaskTransition::Start(start) => (
            LogLevel::Info,
            format!("Task started by agent {}", start.agent_id),
            start_data(start, from, to),
        ),
        TaskTransition::Complete(complete) => (
            LogLevel::Info,
            match complete.result.by_hand {
                true => "Task completed by hand".to_owned(),
                false => "Task completed successfully".to_owned(),
            },
            json!({"result": complete.result, "fromStatus": from, "toStatus": to}),
        ),
        TaskTransition::Fail(fail) => (
            LogLevel::Error,
            "Task failed".to_owned(),
            failure_data(fail, approval, from, to),
        ),
        TaskTransition::Ask(ask) => (
            LogLevel::Warning,
            format!("Task waits for an approval of {}: {}", ask.codon_id, ask.question),
            json!({"codonId": ask.codon_id, "question": ask.question, "fromStatus": from, "toStatus": to}),
        ),
        TaskTransition::Approve => (
            LogLevel::Info,
            approval.map_or_else(
                || "Approved".to_owned(),
                |approval| format!("{} {}", approval.codon_id, approval.sentence()),
            ),
            json!({"approval": approval, "fromStatus": from, "toStatus": to}),
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

fn start_data(start: &Start, from: &str, to: &str) -> Value {
    let mut data = json!({"fromStatus": from, "toStatus": to, "agentId": start.agent_id});
    if start.by_hand {
        data[BY_HAND] = true.into();
    }
    data
}

/// Returns the data of a failure, with the denial that caused it.
fn failure_data(fail: &Fail, denial: Option<&TaskApproval>, from: &str, to: &str) -> Value {
    let mut data = json!({"error": fail.error, "fromStatus": from, "toStatus": to});
    if let Some(failure) = &fail.failure {
        data["failure"] = json!(failure);
    }
    if let Some(denial) = denial {
        data["approval"] = json!(denial);
    }
    data
}

#[cfg(test)]
mod tests {
    use hankweave_core::id::{AgentId, TaskId};
    use hankweave_core::time::Timestamp;

    use super::*;
    use crate::registry::NewTask;
    use crate::task::{Ask, Complete, TaskFailure};

    fn changed(row: &TaskRow, step: TaskTransition) -> ChangedTask {
        let change = RegistryChange {
            id: row.id().clone(),
            expected_version: row.version,
            token: 0,
            steps: vec![step],
            cost: None,
            approval: None,
            by: None,
            lease: None,
            files: Patch::Keep,
        };
        row.change(&change, Timestamp::UNIX_EPOCH).unwrap()
    }

    fn started(row: &TaskRow) -> TaskRow {
        let start = Start {
            agent_id: AgentId::new("w1").unwrap(),
            by_hand: false,
        };
        changed(row, TaskTransition::Start(start)).row
    }

    fn new() -> TaskRow {
        let new = NewTask::new(TaskId::new("task_late").unwrap());
        TaskRow::new(new, 0, Timestamp::UNIX_EPOCH).0
    }

    // covers: TASK-57
    #[test]
    fn a_cancellation_that_came_too_late_is_in_the_log() {
        let complete = || {
            TaskTransition::Complete(Complete {
                result: serde_json::from_value(json!({"success": true})).unwrap(),
            })
        };
        let row = started(&new());
        let asked = row
            .clone()
            .with_cancel_request(Some("ann".to_owned()), Timestamp::UNIX_EPOCH);
        let late = changed(&asked.unwrap(), complete());
        assert_eq!(
            late.lines[0].message,
            "Task completed successfully; the cancellation of ann came too late"
        );
        let unasked = changed(&row, complete());
        assert_eq!(unasked.lines[0].message, "Task completed successfully");
    }

    // covers: TASK-124
    #[test]
    fn what_waits_has_no_error_of_an_attempt_before() {
        let failed = changed(
            &started(&new()),
            TaskTransition::Fail(TaskFailure::from("publish: denied").into()),
        )
        .row;
        assert!(failed.record.metadata().contains_key("error"));
        let again = started(&changed(&failed, TaskTransition::Resume).row);
        let ask = Ask {
            codon_id: "publish".to_owned(),
            question: "Publish?".to_owned(),
        };
        let waiting = changed(&again, TaskTransition::Ask(ask)).row;
        assert!(!waiting.record.metadata().contains_key("error"));
    }
}
