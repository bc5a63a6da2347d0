//! Result of a loop's check (STATE-68).

use serde::{Deserialize, Serialize};

/// Result of the check that ends a loop, after the last codon of an iteration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopCheck {
    /// The command ended with 0, so the loop has ended.
    pub passed: bool,
    /// Message for the next iteration: why the check failed, and the end of its output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub says: Option<String>,
}
