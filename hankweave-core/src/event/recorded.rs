//! The envelope of a recorded event: its number and its time.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// An event with the number and the time that the state manager gave it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recorded<E> {
    /// Number of the event: grows with every recorded event of an execution directory, never used twice.
    pub seq: u64,
    /// When it was recorded; for people, never for ordering.
    pub at: Timestamp,
    /// The event itself.
    #[serde(flatten)]
    pub event: E,
}
