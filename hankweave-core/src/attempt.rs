//! Numbers of attempts. An [`AttemptNumber`] that did not succeed becomes a [`SpentAttempt`], and that becomes the next number.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The number of an attempt, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct AttemptNumber(u32);

/// The number of an attempt that did not succeed. Repeating it gives the next number, so that no caller can forget to count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct SpentAttempt(u32);

impl AttemptNumber {
    /// The first attempt.
    pub const FIRST: Self = Self(1);

    /// The number, from 1.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }
}

impl Default for AttemptNumber {
    fn default() -> Self {
        Self::FIRST
    }
}

impl From<AttemptNumber> for SpentAttempt {
    fn from(attempt: AttemptNumber) -> Self {
        Self(attempt.0)
    }
}

impl From<SpentAttempt> for AttemptNumber {
    fn from(spent: SpentAttempt) -> Self {
        Self(spent.0.saturating_add(1))
    }
}

impl fmt::Display for AttemptNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Display for SpentAttempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spent_attempt_made_again_is_the_next_one() {
        let spent = SpentAttempt::from(AttemptNumber::FIRST);
        assert_eq!(spent.to_string(), "1");
        assert_eq!(AttemptNumber::from(spent).number(), 2);
        assert_eq!(AttemptNumber::from(SpentAttempt(u32::MAX)).number(), u32::MAX);
    }
}
