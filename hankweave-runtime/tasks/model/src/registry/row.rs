//! Row of a task in a registry.

use hankweave_core::id::TaskId;
use hankweave_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::logs::{LogEntry, LogLevel};
use crate::task::{Task, TaskRecord};

/// Default owner.
pub(super) const DEFAULT_OWNER: &str = "system";

/// Task to create.
#[derive(Debug, Clone, PartialEq)]
pub struct NewTask {
    /// Id, which is never reused, not even after a deletion.
    pub id: TaskId,
    /// Name for people.
    pub name: String,
    /// Description.
    pub description: Option<String>,
    /// Owner, who is responsible for the task.
    pub owner: String,
    /// Notes of the owner.
    pub metadata: Map<String, Value>,
    /// Priority; tasks with a higher one are claimed first.
    pub priority: i32,
    /// Tasks that must have completed before this one can be claimed.
    pub after: Vec<TaskId>,
}

impl NewTask {
    /// Creates a task that is named after its id and has the default owner.
    #[must_use]
    pub fn new(id: TaskId) -> Self {
        Self {
            name: id.as_str().to_owned(),
            id,
            description: None,
            owner: DEFAULT_OWNER.to_owned(),
            metadata: Map::new(),
            priority: 0,
            after: Vec::new(),
        }
    }
}

/// Task with the registry's facts about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskRow {
    /// The task.
    #[serde(flatten)]
    pub record: TaskRecord,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Version: 1 at first, one more with each change.
    pub version: u64,
    /// Version at the last change of status. It exposes a task that changes endlessly within one status.
    pub status_version: u64,
    /// Token of the lock under which the last step was made.
    pub fencing_token: u64,
    /// Number of the last log line; lines count from 1 without a gap (TASK-21).
    pub log_seq: u64,
    /// Number of the last of these lines that is known to be in the log file.
    pub written_seq: u64,
    /// Time of a request that the worker should stop. Any step clears it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel_requested_at: Option<Timestamp>,
    /// Priority, 0 by default; tasks with a higher one are claimed first.
    #[serde(default, skip_serializing_if = "is_default")]
    pub priority: i32,
    /// Tasks that must have completed before this one can be claimed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<TaskId>,
}

fn is_default(priority: &i32) -> bool {
    *priority == 0
}

impl TaskRow {
    /// Returns the row and first log line of a task that is created now, under a lock with this token. Without a lock the token is 0.
    #[must_use]
    pub fn new(task: NewTask, token: u64, now: Timestamp) -> (Self, LogEntry) {
        let created = LogEntry {
            timestamp: now,
            level: LogLevel::Info,
            message: "Task created".to_owned(),
            data: Some(json!({"name": task.name, "owner": task.owner, "toStatus": "pending"})),
            seq: Some(1),
        };
        let NewTask {
            id,
            name,
            description,
            owner,
            metadata,
            priority,
            after,
        } = task;
        let row = Self {
            record: Task::new(id, name, description, owner, now, metadata).into_record(),
            updated_at: now,
            version: 1,
            status_version: 1,
            fencing_token: token,
            log_seq: 1,
            written_seq: 0,
            cancel_requested_at: None,
            priority,
            after,
        };
        (row, created)
    }

    /// Returns the id of the task.
    #[must_use]
    pub fn id(&self) -> &TaskId {
        self.record.id()
    }

    /// Returns the resource of the task's lock (TASK-23).
    #[must_use]
    pub fn lock_name(id: &TaskId) -> String {
        format!("task:{id}")
    }
}
