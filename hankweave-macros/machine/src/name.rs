//! Statuses and phases: small closed sets of stored names.

use core::error::Error;
use core::fmt;

use alloc::string::{String, ToString};

/// A closed set of names as stored documents have them: the statuses or the phases of one machine.
pub trait Name: Copy + fmt::Debug + fmt::Display + Eq + 'static {
    /// Every member, in order of declaration.
    const ALL: &'static [Self];

    /// The names that are written, in the order of [`Name::ALL`].
    const NAMES: &'static [&'static str];

    /// The name that is written.
    fn as_str(self) -> &'static str;

    /// Finds the member with this name; a former name that is still read counts.
    fn parse(name: &str) -> Option<Self>;
}

/// A text that is none of the names of a set.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownName {
    /// Text that was read.
    pub found: String,
    /// Names that would have been right.
    pub expected: &'static [&'static str],
}

impl UnknownName {
    /// Reports that `found` is no member of `N`.
    pub fn new<N: Name>(found: &str) -> Self {
        Self {
            found: found.to_string(),
            expected: N::NAMES,
        }
    }
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown name `{}`, expected one of ", self.found)?;
        for (index, name) in self.expected.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}`{name}`")?;
        }
        Ok(())
    }
}

impl Error for UnknownName {}
