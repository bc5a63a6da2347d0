//! Effects that a codon must have to be a success (HANK-66).

use serde::{Serialize, Serializer};

/// Effects that a codon must have to be a success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Requires {
    /// No effect: the codon may succeed even if its agent used no token and no tool.
    Nothing,
    /// A checkpointed file that has changed since the codon started.
    Changes,
    /// For each pattern, a checkpointed file that has changed since the codon started; a pattern with `!` excludes files.
    Patterns(Vec<String>),
}

impl Serialize for Requires {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Nothing => serializer.serialize_str("nothing"),
            Self::Changes => serializer.serialize_str("changes"),
            Self::Patterns(patterns) => patterns.serialize(serializer),
        }
    }
}

impl Requires {
    /// End of the failure message of a codon that lacks an effect.
    pub const UNMET: &'static str = "and it has to (`requires`)";

    /// Whether changed files are required.
    #[must_use]
    pub fn needs_files(&self) -> bool {
        *self != Self::Nothing
    }

    /// Returns the requirement in words: `a changed file`, `changes of plan.md, src/**`.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Self::Nothing => "nothing".to_owned(),
            Self::Changes => "a changed file".to_owned(),
            Self::Patterns(patterns) => format!("changes of {}", patterns.join(", ")),
        }
    }
}
