//! A task, as a registry keeps it.

use hankweave_core::id::TaskId;
use hankweave_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::logs::{LogEntry, LogLevel};
use crate::task::{Task, TaskRecord};

/// Default owner.
pub(super) const DEFAULT_OWNER: &str = "system";

/// A task that is to be created.
#[derive(Debug, Clone, PartialEq)]
pub struct NewTask {
    /// Its id; none is used twice, not even that of a task that was deleted.
    pub id: TaskId,
    /// Name for people.
    pub name: String,
    /// Description.
    pub description: Option<String>,
    /// Who is responsible for it.
    pub owner: String,
    /// Notes of its owner.
    pub metadata: Map<String, Value>,
    /// Tasks with a higher priority are claimed first.
    pub priority: i32,
    /// Tasks that must have completed before this one is claimed.
    pub after: Vec<TaskId>,
}

impl NewTask {
    /// A task that is called by its id and belongs to nobody in particular.
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

/// A task with what its registry knows about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskRow {
    /// The task.
    #[serde(flatten)]
    pub record: TaskRecord,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// 1 at first, one more with each change.
    pub version: u64,
    /// Its version when it came to its status; a task that changes without end and stays where it is shows by it.
    pub status_version: u64,
    /// The token of the lock under which the last step was made.
    pub fencing_token: u64,
    /// The number of its last log line; they count from 1 without a gap (TASK-21).
    pub log_seq: u64,
    /// Up to which of these lines somebody has written them to the log.
    pub written_seq: u64,
    /// When somebody asked whoever works on it to stop; a step takes it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel_requested_at: Option<Timestamp>,
    /// Tasks with a higher priority are claimed first; 0 by default.
    #[serde(default, skip_serializing_if = "is_default")]
    pub priority: i32,
    /// Tasks that must have completed before this one is claimed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<TaskId>,
}

fn is_default(priority: &i32) -> bool {
    *priority == 0
}

impl TaskRow {
    /// The row of a task that was created now under this lock, with its first log line. Without a lock the token is 0.
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

    /// The task.
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
