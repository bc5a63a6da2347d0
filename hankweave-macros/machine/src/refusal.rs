//! Why a stored value was not accepted. Every refusal hands the value back untouched.

use core::error::Error;
use core::fmt;

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::Name;

/// A step on a stored value that was refused.
///
/// `V` is the stored enum, `E` its events, and `S` its status.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct InvalidTransition<V, E, S: 'static> {
    /// The value, as it was before.
    pub value: Box<V>,
    /// The event, as it was given.
    pub event: Box<E>,
    /// The status of the value.
    pub from: S,
    /// The requested step.
    pub step: &'static str,
    /// The status that the step leads to. For the change of a live field, and for a step that the state lacks and that has several targets, the status of
    /// the value.
    pub to: S,
    /// The steps that can follow `from`, each with its target; empty when `from` is terminal.
    pub legal: &'static [(&'static str, S)],
    /// Why the step was refused.
    pub reason: Reason,
}

/// Why a step on a stored value was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The state has no such step.
    NoSuchStep,
    /// The step, or the change, computes a number that the type of the field cannot hold.
    OutOfRange {
        /// The stored name of the field.
        field: &'static str,
    },
    /// The step has no next value for the field: its `try_next` returned nothing.
    NoNextValue {
        /// The stored name of the field.
        field: &'static str,
    },
    /// The value breaks rules of its state.
    BrokenRules {
        /// Every broken rule; never empty.
        violations: Vec<Violation>,
    },
}

impl<V, E, S> InvalidTransition<V, E, S> {
    /// Gives the value and the event back.
    pub fn into_parts(self) -> (V, E) {
        (*self.value, *self.event)
    }
}

/// Makes a refusal; generated code calls it.
pub fn refused<V, E, S>(
    from: S,
    step: &'static str,
    to: S,
    legal: &'static [(&'static str, S)],
    reason: Reason,
    value: V,
    event: E,
) -> InvalidTransition<V, E, S> {
    InvalidTransition {
        value: Box::new(value),
        event: Box::new(event),
        from,
        step,
        to,
        legal,
        reason,
    }
}

impl<V, E, S: Name> fmt::Display for InvalidTransition<V, E, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, step, .. } = self;
        write!(f, "invalid transition from {from}: ")?;
        match &self.reason {
            Reason::NoSuchStep => {
                write!(f, "no step `{step}`")?;
                legal_steps(f, from, self.legal)
            }
            Reason::OutOfRange { field } => {
                write!(
                    f,
                    "`{step}` would make `{field}` larger or smaller than its type can hold"
                )
            }
            Reason::NoNextValue { field } => write!(f, "`{step}` has no next value for `{field}`"),
            Reason::BrokenRules { violations } => {
                write!(f, "`{step}` needs a value that keeps the rules of its state")?;
                for violation in violations {
                    write!(f, "; {violation}")?;
                }
                Ok(())
            }
        }
    }
}

fn legal_steps<S: Name>(f: &mut fmt::Formatter<'_>, from: &S, legal: &[(&str, S)]) -> fmt::Result {
    if legal.is_empty() {
        return write!(f, " ({from} is terminal)");
    }
    let mut separator = " (legal: ";
    for (step, to) in legal {
        write!(f, "{separator}{step} -> {to}")?;
        separator = ", ";
    }
    f.write_str(")")
}

impl<V: fmt::Debug, E: fmt::Debug, S: Name> Error for InvalidTransition<V, E, S> {}

/// Why a stored value could not become the typed value of one state.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum StateMismatch<V, S> {
    /// The value is in another state.
    WrongState {
        /// The requested status.
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

impl<V, S> StateMismatch<V, S> {
    /// Gives the value back.
    pub fn into_value(self) -> V {
        match self {
            Self::WrongState { value, .. } | Self::Invalid { value, .. } => *value,
        }
    }
}

impl<V, S: Name> fmt::Display for StateMismatch<V, S> {
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

impl<V: fmt::Debug, S: Name> Error for StateMismatch<V, S> {}

/// One field whose value its state does not allow.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// The stored name of the field.
    pub field: Cow<'static, str>,
    /// Value that the state allows.
    pub expected: String,
    /// Value of the field.
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
