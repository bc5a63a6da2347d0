//! What the check of a loop said (STATE-68).

use serde::{Deserialize, Serialize};

/// What became of the check that ends a loop, behind the last codon of an iteration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopCheck {
    /// The command ended with 0, so the loop has ended.
    pub passed: bool,
    /// What the next iteration is told: why it has not passed, and the end of what was printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub says: Option<String>,
}
