//! Reasons why a lock was refused.

use serde::{Deserialize, Serialize};

/// Why an acquisition ended without the lock (STATE-63).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    tag = "code",
    rename_all = "SCREAMING_SNAKE_CASE",
    rename_all_fields = "camelCase"
)]
#[non_exhaustive]
pub enum LockFailure {
    /// Another process holds the resource in a mode that does not allow another holder.
    #[error("the resource is held by {existing_owner}")]
    ResourceLocked {
        /// The owner that holds it.
        existing_owner: String,
    },
    /// The holder has a resource that comes later in the one order for taking several.
    #[error("{held} is held already and comes later in the order of resources")]
    LockOrder {
        /// The resource that should have been taken afterwards.
        held: String,
    },
    /// The place where locks are kept did not answer.
    #[error("the lock backend is unavailable: {message}")]
    LockBackendUnavailable {
        /// Message of the failure.
        message: String,
    },
}
