//! Folder with the files of a started task (TASK-127).

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Patch;
use crate::task::TaskRecord;

/// Key of the location in the record's `extra`.
pub(super) const FILES_LOCATION: &str = "filesLocation";

/// Folder of task files, and its machine. A started task stores them, so that a worker with another folder does not start the task anew.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesLocation {
    /// Name of the machine, for people.
    pub machine: String,
    /// Absolute path, on that machine, of the folder of all tasks.
    pub folder: String,
}

impl FilesLocation {
    /// Returns the location of the task's files; `None` if the task has not started, or may start anew.
    #[must_use]
    pub fn of(record: &TaskRecord) -> Option<Self> {
        serde_json::from_value(record.extra().get(FILES_LOCATION)?.clone()).ok()
    }
}

/// Returns the stored value of a changed location; `None` if it is unchanged.
pub(super) fn location_value(files: &Patch<FilesLocation>) -> Option<Value> {
    match files {
        Patch::Keep => None,
        Patch::Clear => Some(Value::Null),
        Patch::Set(location) => Some(json!(location)),
    }
}
