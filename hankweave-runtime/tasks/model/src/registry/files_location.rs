//! Folder in which the files of a begun task are (TASK-127).

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Patch;
use crate::task::TaskRecord;

/// Key of the location among the names of a record that others wrote.
pub(super) const FILES_LOCATION: &str = "filesLocation";

/// Folder of task files, with its machine. It is kept with the task, so that a worker with another folder does not start a begun task anew.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesLocation {
    /// Name of the machine, for people.
    pub machine: String,
    /// Folder of all tasks, as an absolute path there.
    pub folder: String,
}

impl FilesLocation {
    /// Returns the location of a task that has begun; `None` for one that has not, or that may start anew.
    #[must_use]
    pub fn of(record: &TaskRecord) -> Option<Self> {
        serde_json::from_value(record.extra().get(FILES_LOCATION)?.clone()).ok()
    }
}

/// Returns the stored value of a changed location; `None` when it stays.
pub(super) fn stored(files: &Patch<FilesLocation>) -> Option<Value> {
    match files {
        Patch::Keep => None,
        Patch::Clear => Some(Value::Null),
        Patch::Set(location) => Some(json!(location)),
    }
}
