//! Why a stored value was not accepted. Every refusal hands the value back untouched.

use core::error::Error;
use core::fmt;

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::Name;

/// A transition that the machine does not have from the present state.
///
/// `V` is the stored enum and `S` its status.
#[derive(Debug, Clone, PartialEq)]
pub struct InvalidTransition<V, S: 'static> {
    /// The value, as it was before.
    pub value: Box<V>,
    /// The status of the value.
    pub from: S,
    /// The status that the transition leads to.
    pub to: S,
    /// The statuses that can follow `from`; empty when `from` is terminal.
    pub legal: &'static [S],
}

impl<V, S: Name> fmt::Display for InvalidTransition<V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid transition from {} to {}", self.from, self.to)?;
        match self.legal {
            [] => write!(f, " ({} is terminal)", self.from),
            legal => {
                let mut separator = " (legal: ";
                for status in legal {
                    write!(f, "{separator}{status}")?;
                    separator = ", ";
                }
                f.write_str(")")
            }
        }
    }
}

impl<V: fmt::Debug, S: Name> Error for InvalidTransition<V, S> {}

/// Why a stored value could not become the typed value of one state.
#[derive(Debug, Clone, PartialEq)]
pub enum Refused<V, S> {
    /// The value is in another state.
    WrongState {
        /// The status that was asked for.
        expected: S,
        /// The status of the value.
        found: S,
        /// The value, untouched.
        value: Box<V>,
    },
    /// The value is in the right state, but breaks rules of that state.
    Invalid {
        /// The status of the value.
        status: S,
        /// Every broken rule; never empty.
        violations: Vec<Violation>,
        /// The value, untouched.
        value: Box<V>,
    },
}

impl<V, S> Refused<V, S> {
    /// Gives the value back.
    pub fn into_value(self) -> V {
        match self {
            Self::WrongState { value, .. } | Self::Invalid { value, .. } => *value,
        }
    }
}

impl<V, S: Name> fmt::Display for Refused<V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongState { expected, found, .. } => {
                write!(f, "expected status {expected}, found {found}")
            }
            Self::Invalid {
                status, violations, ..
            } => {
                write!(f, "not a valid value of status {status}")?;
                for violation in violations {
                    write!(f, "; {violation}")?;
                }
                Ok(())
            }
        }
    }
}

impl<V: fmt::Debug, S: Name> Error for Refused<V, S> {}

/// One field whose value its state does not allow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The stored name of the field.
    pub field: Cow<'static, str>,
    /// What the state allows.
    pub expected: String,
    /// What the field holds.
    pub found: String,
}

impl Violation {
    /// Checks a field that has one legal value.
    pub fn unless_equal<T: fmt::Debug + PartialEq>(
        field: &'static str,
        expected: &T,
        found: &T,
    ) -> Option<Self> {
        (expected != found).then(|| Self {
            field: field.into(),
            expected: format!("{expected:?}"),
            found: format!("{found:?}"),
        })
    }

    /// Checks a field that has a few legal values.
    pub fn unless_among<N: Name>(field: &'static str, expected: &[N], found: N) -> Option<Self> {
        (!expected.contains(&found)).then(|| {
            let names: Vec<&str> = expected.iter().map(|name| name.as_str()).collect();
            Self {
                field: field.into(),
                expected: names.join(" or "),
                found: String::from(found.as_str()),
            }
        })
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "field `{}` must be {}, not {}",
            self.field, self.expected, self.found
        )
    }
}

impl Error for Violation {}
