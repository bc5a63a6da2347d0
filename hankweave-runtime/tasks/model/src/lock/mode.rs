//! Lock modes.

use serde::{Deserialize, Serialize};

/// Mode of a lock: whether it can have several holders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum LockMode {
    /// One holder; a conflict fails at once.
    Exclusive,
    /// Several collaborative holders; a conflict waits for another attempt.
    Collaborative,
}

impl LockMode {
    /// Returns the name of the mode.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::Collaborative => "collaborative",
        }
    }
}
