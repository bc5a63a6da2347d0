//! Conversion of tasks, log lines and locks into column values and back, common to SQLite and PostgreSQL: numbers are signed integers, times are Unix
//! milliseconds, and a task's record is JSON.

use hankweave_core::id::TaskId;
use hankweave_core::time::Timestamp;
use hankweave_task_model::lock::LockMode;
use hankweave_task_model::registry::TaskRow;
use hankweave_task_model::task::TaskRecord;
use hankweave_task_model::{Holder, LockGrant, LogEntry};

use serde_json::json;

use crate::coordinator::HeldLock;
use crate::engine::{TxError, TxResult};

/// Converts to a signed integer, because databases have no unsigned ones. Numbers in a registry never reach the limit.
pub(crate) fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(crate) fn natural(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

pub(crate) fn time(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn unreadable(what: &str, error: impl std::fmt::Display) -> TxError {
    TxError::Failed(format!("{what} in the registry cannot be read: {error}"))
}

pub(crate) fn read_id(id: String) -> TxResult<TaskId> {
    TaskId::new(id).map_err(|error| unreadable("the id of a task", error))
}

/// Returns the number and the text of a log line.
pub(crate) fn line_columns(line: &LogEntry) -> TxResult<(i64, String)> {
    let text = serde_json::to_string(line).map_err(|error| TxError::Failed(error.to_string()))?;
    Ok((integer(line.seq.unwrap_or(0)), text))
}

pub(crate) fn read_line(text: &str) -> TxResult<LogEntry> {
    serde_json::from_str(text).map_err(|error| unreadable("a log line", error))
}

/// Returns the last status of a deleted task.
pub(crate) fn deleted_from(row: &TaskRow) -> &'static str {
    match &row.record {
        TaskRecord::Deleted(deleted) => deleted.deleted_from.as_str(),
        other => other.status().as_str(),
    }
}

/// Column values of a task.
pub(crate) struct StoredTask {
    pub(crate) record: String,
    pub(crate) updated_at: i64,
    pub(crate) version: i64,
    pub(crate) status_version: i64,
    pub(crate) fencing_token: i64,
    pub(crate) log_seq: i64,
    pub(crate) written_seq: i64,
    pub(crate) cancel_requested_at: Option<i64>,
    pub(crate) priority: i64,
    /// Ids of earlier tasks, as a JSON array.
    pub(crate) after: String,
}

impl StoredTask {
    pub(crate) fn of(row: &TaskRow) -> TxResult<Self> {
        let record = serde_json::to_string(&row.record);
        Ok(Self {
            record: record.map_err(|error| TxError::Failed(error.to_string()))?,
            updated_at: row.updated_at.as_millis(),
            version: integer(row.version),
            status_version: integer(row.status_version),
            fencing_token: integer(row.fencing_token),
            log_seq: integer(row.log_seq),
            written_seq: integer(row.written_seq),
            cancel_requested_at: row.cancel_requested_at.map(Timestamp::as_millis),
            priority: row.priority.into(),
            after: json!(row.after).to_string(),
        })
    }

    pub(crate) fn row(self) -> TxResult<TaskRow> {
        let record = serde_json::from_str(&self.record);
        Ok(TaskRow {
            record: record.map_err(|error| unreadable("a task", error))?,
            updated_at: time(self.updated_at),
            version: natural(self.version),
            status_version: natural(self.status_version),
            fencing_token: natural(self.fencing_token),
            log_seq: natural(self.log_seq),
            written_seq: natural(self.written_seq),
            cancel_requested_at: self.cancel_requested_at.map(time),
            priority: i32::try_from(self.priority).map_err(|error| unreadable("a priority", error))?,
            after: serde_json::from_str(&self.after)
                .map_err(|error| unreadable("the earlier tasks", error))?,
        })
    }
}

/// Column values of a lock.
pub(crate) struct StoredHeld {
    pub(crate) resource: String,
    pub(crate) owner: String,
    pub(crate) scope: String,
    pub(crate) mode: String,
    pub(crate) token: i64,
    pub(crate) count: i64,
    pub(crate) acquired_at: i64,
    pub(crate) expires_at: Option<i64>,
}

impl StoredHeld {
    pub(crate) fn lock(self) -> TxResult<HeldLock> {
        let mode = match self.mode.as_str() {
            "exclusive" => LockMode::Exclusive,
            "collaborative" => LockMode::Collaborative,
            other => return Err(unreadable("a lock", format!("there is no mode `{other}`"))),
        };
        let held = LockGrant {
            holder: Holder::new(self.owner, self.scope),
            mode,
            token: natural(self.token),
            count: u32::try_from(self.count).map_err(|error| unreadable("a lock", error))?,
            acquired_at: time(self.acquired_at),
            expires_at: self.expires_at.map(time),
        };
        Ok(HeldLock {
            resource: self.resource,
            held,
        })
    }
}
