//! State machines that the compiler checks.
//!
//! One declaration, an enum as it shall stand in a stored document, is given to [`machine`](macro@crate::machine). What comes
//! out is a typed value whose illegal steps do not compile, the stored enum whose illegal steps are refused at run
//! time, and the graph of the machine as data. This module holds what all machines have in common.

mod diagram;
#[cfg(feature = "serde")]
mod extra;
mod graph;
mod name;
mod refusal;
mod sample;
#[cfg(feature = "schema")]
pub mod schema;
#[cfg(feature = "serde")]
pub mod stored;
pub mod testing;
mod walks;

#[cfg(feature = "serde")]
pub use extra::Extra;
pub use graph::{Edge, Field, Machine, State};
pub use name::{Name, UnknownName};
pub use refusal::{InvalidTransition, Refused, Violation};
pub use sample::Sample;
pub use walks::{Walk, Walks};
