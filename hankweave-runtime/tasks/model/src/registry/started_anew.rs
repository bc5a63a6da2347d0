//! Start of a task from its first codon, without the files of its earlier attempts (TASK-127).

use hankweave_core::cost::Usd;
use hankweave_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::task::TaskRecord;

/// Key of the start among the names of a record that others wrote.
pub(super) const STARTED_ANEW: &str = "startedAnew";

/// Request of a user that a task starts anew, the newest one. The registry keeps it: its codons are paid again, and its budget counts from there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartedAnew {
    /// User who asked for it.
    pub by: String,
    /// When that was.
    pub at: Timestamp,
    /// Cost of all attempts before, in US dollars, so far as the registry knew it.
    pub cost: Usd,
}

impl StartedAnew {
    /// Returns the newest request; `None` for a task that has not started anew.
    #[must_use]
    pub fn of(record: &TaskRecord) -> Option<Self> {
        serde_json::from_value(record.extra().get(STARTED_ANEW)?.clone()).ok()
    }
}
