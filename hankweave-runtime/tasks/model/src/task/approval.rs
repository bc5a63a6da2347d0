//! Answer of a user to the question of a waiting task.

use serde::{Deserialize, Serialize};

/// Answer to a codon's request for approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskApproval {
    /// Codon that was approved or denied.
    pub codon_id: String,
    /// Whether the codon may start.
    pub granted: bool,
    /// User who answered.
    pub by: String,
    /// Reason of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl TaskApproval {
    /// Returns the answer in a sentence, such as `approved by ann: looks good`.
    #[must_use]
    pub fn sentence(&self) -> String {
        let answer = if self.granted { "approved" } else { "denied" };
        match &self.reason {
            Some(reason) => format!("{answer} by {}: {reason}", self.by),
            None => format!("{answer} by {}", self.by),
        }
    }
}
