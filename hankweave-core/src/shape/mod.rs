//! Checks the shape of JSON from outside against Rust types, and describes every difference for people.
//!
//! A type that implements [`Shape`] finds every error in a value, each with its path; serde would stop at the first. A value without findings can then be
//! deserialized. `#[derive(Shape)]` takes names and presence from the attributes of serde, so that nothing is described twice.

mod checker;
pub(crate) mod depth;
mod leaf;
mod plain;

pub use checker::{Checker, FieldRule, ShapeCheck, ShapeProblem, nullable, optional, required};
pub(crate) use checker::{any_object, kind_of, remove_null};
pub use hankweave_core_macros::{Named, Shape};
pub use leaf::leaf;
pub(crate) use leaf::leaves;
pub(crate) use plain::syntax;
pub use plain::{plain, plain_with_place};

/// Any JSON. An alias, not a re-export: for its variant `String`, the compiler would write `std::string::String` in full in every message.
#[doc(hidden)]
pub type Value = serde_json::Value;

/// A type that finds the reasons why a JSON value cannot be read as this type.
pub trait Shape {
    /// Reports every error in `value`. Removes from it optional names whose value is `null`.
    fn check(checker: &mut Checker, value: &mut Value);
}

/// An enum whose JSON is an object that has the name of the variant next to its data.
pub trait Variants {
    /// The name of each variant, with the rules for its data.
    const VARIANTS: &'static [(&'static str, &'static [FieldRule])];

    /// Returns the rules for the data of this variant; `None` when there is no such variant.
    #[must_use]
    fn rules(name: &str) -> Option<&'static [FieldRule]> {
        let variant = Self::VARIANTS.iter().find(|(known, _)| *known == name);
        variant.map(|(_, rules)| *rules)
    }

    /// Returns the names of all variants.
    fn names() -> impl Iterator<Item = &'static str> {
        Self::VARIANTS.iter().map(|(name, _)| *name)
    }
}

impl<T: Shape> Shape for Vec<T> {
    fn check(checker: &mut Checker, value: &mut Value) {
        checker.list(value, T::check);
    }
}

impl<T: Shape> Shape for std::collections::VecDeque<T> {
    fn check(checker: &mut Checker, value: &mut Value) {
        checker.list(value, T::check);
    }
}

impl<T: Shape> Shape for std::sync::Arc<T> {
    fn check(checker: &mut Checker, value: &mut Value) {
        T::check(checker, value);
    }
}

impl Shape for serde_json::Map<String, Value> {
    fn check(checker: &mut Checker, value: &mut Value) {
        any_object(checker, value);
    }
}

leaves!(bool, i64, u32, u64, String, std::path::PathBuf);

/// Implements [`Shape`] for the status and the phase of a state machine, and `shape_of` for its stored enum. The macro `machine` passes the arguments
/// (`fields = crate::shape::of_machine`): these three types, and for each stored field its type, either one for all states, in brackets, or one for each
/// state, in braces.
macro_rules! of_machine {
    ($vis:vis $stored:ident, $status:ident, $phase:ident; $($name:literal: $types:tt,)*) => {
        $crate::shape::of_machine!(@leaf $status $phase);

        impl $stored {
            /// Returns the check of the stored field with this name. A field whose type depends on the state has one only with a `status`.
            $vis fn shape_of(status: Option<$status>, name: &str) -> Option<$crate::shape::ShapeCheck> {
                match name {
                    $($name => $crate::shape::of_machine!(@check status $status $types),)*
                    _ => None,
                }
            }
        }
    };
    (@leaf $($name:ident)*) => {
        $(impl $crate::shape::Shape for $name {
            fn check(checker: &mut $crate::shape::Checker, value: &mut $crate::shape::Value) {
                $crate::shape::leaf::<Self>(checker, value);
            }
        })*
    };
    (@check $found:ident $status:ident [$type:ty]) => {
        Some(<$type as $crate::shape::Shape>::check)
    };
    (@check $found:ident $status:ident { $($state:ident: $type:ty),* }) => {{
        $(if $found == Some($status::$state) {
            return Some(<$type as $crate::shape::Shape>::check);
        })*
        None
    }};
}

pub(crate) use of_machine;
