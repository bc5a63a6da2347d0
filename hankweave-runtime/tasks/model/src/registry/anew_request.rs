//! Request that a task may start anew, without the files of its earlier attempts (TASK-127).

use hankweave_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::task::TaskRecord;

/// Key of the request among the names of a record that others wrote.
pub(super) const ANEW_REQUEST: &str = "anewRequest";

/// Newest request of a user that a task may start anew, on record. A worker that has its files, or its run from a remote, continues it all the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnewRequest {
    /// User who asked for it.
    pub by: String,
    /// When that was.
    pub at: Timestamp,
}

impl AnewRequest {
    /// Returns the newest request; `None` where there was none.
    #[must_use]
    pub fn of(record: &TaskRecord) -> Option<Self> {
        serde_json::from_value(record.extra().get(ANEW_REQUEST)?.clone()).ok()
    }
}
