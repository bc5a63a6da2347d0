//! How a lock is shared.

use serde::{Deserialize, Serialize};

/// Whether others may hold the resource at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum LockMode {
    /// One holder; a conflict fails at once.
    Exclusive,
    /// Several collaborative holders; a conflict waits and tries again.
    Collaborative,
}

impl LockMode {
    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::Collaborative => "collaborative",
        }
    }
}
