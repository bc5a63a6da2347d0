//! An event with its place in history.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// An event with the number and the time that the state manager gave it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recorded<E> {
    /// Its place in history: grows with every recorded event of an execution directory, never used twice.
    pub seq: u64,
    /// When it was recorded; for people, never for ordering.
    pub at: Timestamp,
    /// Event.
    #[serde(flatten)]
    pub event: E,
}
