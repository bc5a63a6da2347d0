//! Changes of a task's descriptive fields, apart from its steps.

use hankweave_core::cost::Usd;
use hankweave_core::time::Timestamp;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use crate::error::TaskError;
use crate::logs::{LogEntry, LogLevel};
use crate::registry::anew_request::{ANEW_REQUEST, AnewRequest};
use crate::registry::cost::BEFORE_ANEW;
use crate::registry::files_location::FILES_LOCATION;
use crate::registry::{ChangedTask, TaskRow};
use crate::task::TaskRecord;

/// Change of one field. In JSON: absent, `null`, or a value.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Patch<T> {
    /// Keep the value.
    #[default]
    Keep,
    /// Reset to the default.
    Clear,
    /// Set to this value.
    Set(T),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Patch<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Option::deserialize(deserializer)?;
        Ok(value.map_or(Self::Clear, Self::Set))
    }
}

/// Change of a task's fields (TASK-22).
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskPatch {
    /// Name for people; the id when cleared.
    #[serde(default)]
    pub name: Patch<String>,
    /// Description.
    #[serde(default)]
    pub description: Patch<String>,
    /// Owner, who is responsible; `system` when cleared.
    #[serde(default)]
    pub owner: Patch<String>,
    /// Notes of the owner, replaced as a whole.
    #[serde(default)]
    pub metadata: Patch<Map<String, Value>>,
    /// User who permits a start anew in any folder, without the task's files; `None` keeps an earlier permission.
    #[serde(skip)]
    pub anew_by: Option<String>,
    /// Cost of the attempts before the one that starts anew now; `None` keeps the stored one.
    #[serde(skip)]
    pub before_anew: Option<Usd>,
    /// Version that the task must have; `None` permits any.
    #[serde(default)]
    pub if_version: Option<u64>,
}

impl TaskRow {
    /// Returns the row with these fields and an unchanged status (TASK-22). Permission to start anew adds a log line.
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::VersionConflict`].
    pub fn patched(&self, patch: TaskPatch, now: Timestamp) -> Result<ChangedTask, TaskError> {
        if patch.if_version.is_some_and(|version| version != self.version) {
            return Err(TaskError::VersionConflict {
                resource: Self::lock_name(self.id()),
                version: self.version,
            });
        }
        let anew = patch.anew_by.map(|by| AnewRequest { by, at: now });
        let log_seq = self.log_seq + u64::from(anew.is_some());
        let line = anew.as_ref().map(|anew| LogEntry {
            timestamp: now,
            level: LogLevel::Info,
            message: "Asked to start anew".to_owned(),
            data: Some(json!({"by": anew.by, "toStatus": self.record.status()})),
            seq: Some(log_seq),
        });
        let fields = [
            ("name", value_of(patch.name, json!(self.id()))),
            ("description", value_of(patch.description, Value::Null)),
            ("owner", value_of(patch.owner, json!(super::row::DEFAULT_OWNER))),
            ("metadata", value_of(patch.metadata, json!({}))),
            // A task without a location may start in any folder.
            (FILES_LOCATION, anew.as_ref().map(|_| Value::Null)),
            (ANEW_REQUEST, anew.map(|anew| json!(anew))),
            (BEFORE_ANEW, patch.before_anew.map(|before| json!(before))),
        ];
        let row = Self {
            record: with_fields(self.record.clone(), fields)?,
            updated_at: now,
            version: self.version + 1,
            log_seq,
            ..self.clone()
        };
        Ok(ChangedTask {
            row,
            lines: line.into_iter().collect(),
        })
    }
}

/// Returns the new value of a field; `None` if it is unchanged.
fn value_of<T: Into<Value>>(patch: Patch<T>, default: Value) -> Option<Value> {
    match patch {
        Patch::Keep => None,
        Patch::Clear => Some(default),
        Patch::Set(value) => Some(value.into()),
    }
}

/// Returns the record with new values of fields that every status has; null removes a field. The fields are set in the stored form, because
/// a typed task can be changed by steps only.
pub(super) fn with_fields<const N: usize>(
    record: TaskRecord,
    fields: [(&'static str, Option<Value>); N],
) -> Result<TaskRecord, TaskError> {
    let id = record.id().as_str().to_owned();
    let failed = |error: serde_json::Error| TaskError::TaskUpdateFailed {
        id: id.clone(),
        reason: error.to_string(),
    };
    let mut stored = serde_json::to_value(record).map_err(failed)?;
    for (name, value) in fields {
        match (value, stored.as_object_mut()) {
            (Some(Value::Null), Some(fields)) => drop(fields.shift_remove(name)),
            (Some(value), _) => stored[name] = value,
            (None, _) => {}
        }
    }
    serde_json::from_value(stored).map_err(failed)
}
