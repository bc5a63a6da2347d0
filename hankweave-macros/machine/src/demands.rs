//! Traits that the data of a machine needs, summed up in one trait for each kind of machine, so that rustc reports a missing one once.
//!
//! Generated code gives each type of the data an alias, `If<{ <T as Storable>::HOLDS }, T>`. Where `T` lacks a trait, the constant does not exist, and rustc
//! prints the message of the summing trait.

use core::fmt::Debug;

/// Data of a machine with events.
#[diagnostic::on_unimplemented(
    message = "`{Self}` lacks a trait that the data of a machine needs",
    label = "needs `Debug`, `Clone` and `PartialEq`",
    note = "a type of your own gets them by `#[derive(Debug, Clone, PartialEq)]`",
    note = "a socket, a closure or anything else of the running program needs `#[machine(Name, types)]`, which asks for no trait and has no events"
)]
pub trait Recordable {
    /// Exists for types that have all the traits.
    const HOLDS: bool = true;
}

#[diagnostic::do_not_recommend]
impl<T: Debug + Clone + PartialEq> Recordable for T {}

/// Data of a machine that is stored.
#[cfg(feature = "serde")]
#[diagnostic::on_unimplemented(
    message = "`{Self}` lacks a trait that the data of a stored machine needs",
    label = "needs `Debug`, `Clone`, `PartialEq`, and serde's `Serialize` and `Deserialize`",
    note = "a type of your own gets them by `#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]`",
    note = "a type of another crate may get serde's by a feature of that crate, or is stored by `#[serde(with = \"..\")]` at the field",
    note = "a machine that is not stored says so: `#[machine(Name, unstored)]` needs no serde",
    note = "a socket, a closure or anything else of the running program needs `#[machine(Name, types)]`, which asks for no trait, and has neither events nor a stored form"
)]
pub trait Storable {
    /// Exists for types that have all the traits.
    const HOLDS: bool = true;
}

#[cfg(feature = "serde")]
#[diagnostic::do_not_recommend]
impl<T: Debug + Clone + PartialEq + serde::Serialize + serde::de::DeserializeOwned> Storable for T {}

/// The type `T`; names the constant `HOLDS`, so that rustc evaluates it.
pub type If<const HOLDS: bool, T> = <Condition<HOLDS> as Gives<T>>::Given;

/// Helper of [`If`]: carries its constant.
#[derive(Debug)]
pub struct Condition<const HOLDS: bool>;

/// Helper of [`If`]: has the type if the constant is true.
pub trait Gives<T> {
    /// `T` itself.
    type Given;
}

impl<T> Gives<T> for Condition<true> {
    type Given = T;
}
