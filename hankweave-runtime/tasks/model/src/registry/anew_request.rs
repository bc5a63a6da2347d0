//! Request that a task may start anew, without the files of its earlier attempts (TASK-127).

use hankweave_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::task::TaskRecord;

/// Key of the request in the record's `extra`.
pub(super) const ANEW_REQUEST: &str = "anewRequest";

/// Newest recorded request of a user that a task may start anew. A worker that has the task's files, or gets its run from a remote, still continues
/// it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnewRequest {
    /// User who made the request.
    pub by: String,
    /// Time of the request.
    pub at: Timestamp,
}

impl AnewRequest {
    /// Returns the newest request, if there is one.
    #[must_use]
    pub fn of(record: &TaskRecord) -> Option<Self> {
        serde_json::from_value(record.extra().get(ANEW_REQUEST)?.clone()).ok()
    }
}
