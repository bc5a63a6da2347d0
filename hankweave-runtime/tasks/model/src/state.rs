//! State of a task, as stored in state.json (TASK-40).

use hankweave_core::id::TaskId;
use hankweave_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::checksum::{read_object, seal, verify};
use crate::error::TaskError;
use crate::task::TaskStatus;

/// Value that other programs write in place of a checksum.
const NO_CHECKSUM: &str =
    "000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000";

/// State of a task; unknown names of other programs are kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskState {
    /// The task.
    pub task_id: TaskId,
    /// Status when the file was written. The registry's status takes precedence.
    pub status: TaskStatus,
    /// Data of the task. For the data, the file takes precedence over the registry.
    #[serde(default)]
    pub data: Map<String, Value>,
    /// Time of this write.
    pub last_updated: Timestamp,
    /// Number of writes; `None` if its writer does not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// Token of the lock under which it was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fencing_token: Option<u64>,
    /// Names that other programs wrote.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl TaskState {
    /// Returns the state of a new task, without data and not yet with a version.
    #[must_use]
    pub fn new(task_id: TaskId, status: TaskStatus, now: Timestamp) -> Self {
        Self {
            task_id,
            status,
            data: Map::new(),
            last_updated: now,
            version: None,
            fencing_token: None,
            extra: Map::new(),
        }
    }

    /// Returns the text of the file, with its checksum.
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::StateSaveFailed`] if JSON cannot hold the state exactly.
    pub fn text(&self) -> Result<String, TaskError> {
        let no_json = |_| TaskError::StateSaveFailed("it is no JSON");
        let mut object = match serde_json::to_value(self).map_err(no_json)? {
            Value::Object(object) => object,
            _ => return Err(TaskError::StateSaveFailed("it is no object")),
        };
        seal(&mut object)?;
        serde_json::to_string_pretty(&object).map_err(no_json)
    }

    /// Parses the file of this task; repairs nothing.
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::StateLoadFailed`] if the file cannot be read without loss. Returns [`TaskError::StateValidationFailed`] if it differs
    /// from what was saved, or belongs to another task.
    pub fn read(bytes: &[u8], task: &TaskId) -> Result<Self, TaskError> {
        let object = object(bytes)?;
        verify(&object)?;
        Self::of(object, task)
    }

    /// Parses a file, also one without a checksum or with zeros in its place, as other programs write it. The second value is whether this is such a
    /// file. Any other checksum must fit.
    ///
    /// # Errors
    ///
    /// Fails like [`read`](Self::read).
    pub fn import(bytes: &[u8], task: &TaskId) -> Result<(Self, bool), TaskError> {
        let object = object(bytes)?;
        let is_legacy = match object.get("checksum") {
            None => true,
            Some(sum) => sum == NO_CHECKSUM,
        };
        if !is_legacy {
            verify(&object)?;
        }
        Ok((Self::of(object, task)?, is_legacy))
    }

    fn of(mut object: Map<String, Value>, task: &TaskId) -> Result<Self, TaskError> {
        object.shift_remove("checksum");
        if object.get("taskId").and_then(Value::as_str) != Some(task.as_str()) {
            return Err(TaskError::StateValidationFailed("it is that of another task"));
        }
        let misshapen = |error: serde_json::Error| TaskError::StateLoadFailed(error.to_string());
        serde_json::from_value(Value::Object(object)).map_err(misshapen)
    }

    /// Checks that `next` may replace this state: its lock is not older, and its version is later (TASK-41). A state without a version may be replaced
    /// by any version.
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::StaleToken`] or [`TaskError::VersionConflict`].
    pub fn may_become(&self, next: &Self) -> Result<(), TaskError> {
        self.check_token(next.fencing_token.unwrap_or(0))?;
        match (self.version, next.version) {
            (Some(version), next) if next.is_none_or(|next| next <= version) => {
                Err(TaskError::VersionConflict {
                    resource: self.lock_name(),
                    version,
                })
            }
            _ => Ok(()),
        }
    }

    /// Checks that a writer with this token may write at all: no later token has written this state.
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::StaleToken`].
    pub fn check_token(&self, token: u64) -> Result<(), TaskError> {
        match token < self.fencing_token.unwrap_or(0) {
            true => Err(TaskError::StaleToken {
                resource: self.lock_name(),
                token,
            }),
            false => Ok(()),
        }
    }

    fn lock_name(&self) -> String {
        format!("task:{}", self.task_id)
    }
}

fn object(bytes: &[u8]) -> Result<Map<String, Value>, TaskError> {
    let text = std::str::from_utf8(bytes).map_err(|error| TaskError::StateLoadFailed(error.to_string()))?;
    read_object(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SEALED: &str = "{\n  \"taskId\": \"report-7\",\n  \"status\": \"completed\",\n  \"data\": {\n    \"pages\": 3,\n    \"title\": \"Q1 – Übersicht\"\n  },\n  \"lastUpdated\": \"2026-02-03T09:15:00.250Z\",\n  \"checksum\": \"832643dc3e8aa21976c602553dd237155807559b75936065a5d68081eb0a94ed\"\n}";

    fn task() -> TaskId {
        TaskId::new("report-7").unwrap()
    }

    fn code(text: &str) -> &'static str {
        TaskState::read(text.as_bytes(), &task()).unwrap_err().code()
    }

    // covers: TASK-40
    #[test]
    fn a_state_comes_back_as_it_was_saved_or_not_at_all() {
        let state = TaskState::read(SEALED.as_bytes(), &task()).unwrap();
        assert_eq!(state.data["title"], "Q1 – Übersicht");
        assert_eq!(state.text().unwrap(), SEALED);
        let mut other = state.clone();
        other.extra.insert("of others".into(), json!([1, {"a": null}]));
        (other.version, other.fencing_token) = (Some(3), Some(7));
        let text = other.text().unwrap();
        assert_eq!(TaskState::read(text.as_bytes(), &task()).unwrap(), other);
        for (find, replace, expected) in [
            ("3,", "4,", "STATE_VALIDATION_FAILED"),
            ("832643dc", "832643DC", "STATE_VALIDATION_FAILED"),
            ("\"checksum\"", "\"sum\"", "STATE_VALIDATION_FAILED"),
            ("\"pages\": 3", "\"pages\": 3, \"pages\": 3", "STATE_LOAD_FAILED"),
            ("\n}", "", "STATE_LOAD_FAILED"),
            ("{", "", "STATE_LOAD_FAILED"),
        ] {
            assert_eq!(code(&SEALED.replacen(find, replace, 1)), expected, "{find}");
        }
        let elsewhere = TaskState::read(SEALED.as_bytes(), &TaskId::new("report-8").unwrap());
        assert_eq!(elsewhere.unwrap_err().code(), "STATE_VALIDATION_FAILED");
        assert_eq!(
            TaskState::read(b"\xff", &task()).unwrap_err().code(),
            "STATE_LOAD_FAILED"
        );
    }

    // covers: TASK-40
    #[test]
    fn a_file_without_a_checksum_is_taken_over_only_when_that_is_asked_for() {
        let sum = "832643dc3e8aa21976c602553dd237155807559b75936065a5d68081eb0a94ed";
        for legacy in [
            SEALED.replace(sum, NO_CHECKSUM),
            SEALED.replace("checksum", "sum"),
        ] {
            assert_eq!(code(&legacy), "STATE_VALIDATION_FAILED");
            let (state, is_legacy) = TaskState::import(legacy.as_bytes(), &task()).unwrap();
            assert_eq!((state.data["pages"].as_u64(), is_legacy), (Some(3), true));
        }
        assert!(!TaskState::import(SEALED.as_bytes(), &task()).unwrap().1);
        let spoiled = SEALED.replace("3,", "4,");
        assert!(TaskState::import(spoiled.as_bytes(), &task()).is_err());
        assert_eq!(NO_CHECKSUM.len(), 90);
    }

    // covers: TASK-41
    #[test]
    fn a_state_gives_way_only_to_a_later_one_under_no_earlier_lock() {
        let state = |version, token| TaskState {
            version,
            fencing_token: token,
            ..TaskState::new(task(), TaskStatus::Running, Timestamp::UNIX_EPOCH)
        };
        let current = state(Some(4), Some(7));
        for (version, token, refused) in [
            (Some(5), Some(7), None),
            (Some(9), Some(8), None),
            (Some(5), Some(6), Some("STALE_TOKEN")),
            (Some(5), None, Some("STALE_TOKEN")),
            (Some(4), Some(8), Some("VERSION_CONFLICT")),
            (None, Some(8), Some("VERSION_CONFLICT")),
        ] {
            let answer = current
                .may_become(&state(version, token))
                .map_err(|error| error.code());
            assert_eq!(answer.err(), refused, "{version:?} {token:?}");
        }
        assert!(state(None, None).may_become(&state(None, None)).is_ok());
    }
}
