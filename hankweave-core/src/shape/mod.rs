//! Shape of JSON from outside, with every difference described for people.
//!
//! A type that implements [`Shape`] finds every error in a value, each with its path; the type then reads a value without findings.
//! `#[derive(Shape)]` takes names and presence from the attributes of serde, so that nothing is described twice.

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

/// Any JSON. An alias and no export: its variants would make the compiler write out `std::string::String` in every message.
#[doc(hidden)]
pub type Value = serde_json::Value;

/// A type that finds why a JSON value is not one of its own.
pub trait Shape {
    /// Reports everything that is wrong with `value`, and takes out of it names whose value is `null` and that may be absent.
    fn check(checker: &mut Checker, value: &mut Value);
}

/// An enum whose variants are named next to their data.
pub trait Variants {
    /// Each name with what its data must be.
    const VARIANTS: &'static [(&'static str, &'static [FieldRule])];

    /// Returns the rules for the data of this variant; `None` when there is no such variant.
    #[must_use]
    fn rules(name: &str) -> Option<&'static [FieldRule]> {
        let variant = Self::VARIANTS.iter().find(|(known, _)| *known == name);
        variant.map(|(_, rules)| *rules)
    }

    /// The names of all variants.
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

/// Implements [`Shape`] for the status and the phase of a machine, and `shape_of` for its stored enum, from the table of its stored fields.
macro_rules! of_machine {
    ($vis:vis $stored:ident, $status:ident, $phase:ident; $($name:literal: $types:tt,)*) => {
        $crate::shape::of_machine!(@leaf $status $phase);

        impl $stored {
            /// Returns the check of the stored field with this name. Without a status it is known where the field has one type in all states.
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
