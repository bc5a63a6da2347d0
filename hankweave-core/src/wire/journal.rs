//! The lines of the journal.

use serde::{Deserialize, Serialize};

use super::Event;
use crate::id::EventId;
use crate::time::Timestamp;

/// An event with everything that a journal line holds: `{seq, id, timestamp, type, data}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JournalEntry {
    /// Its place in history.
    pub seq: u64,
    /// Its own name, for clients that remove doubles.
    pub id: EventId,
    /// When it was recorded.
    pub timestamp: Timestamp,
    /// Event.
    #[serde(flatten)]
    pub event: Event,
}

impl JournalEntry {
    /// Reads the line of an entry.
    ///
    /// # Errors
    ///
    /// When it was not written whole, or was damaged.
    pub fn from_json(line: &[u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(line)
    }
}
