//! The machine with typestate.

pub mod machine;
pub mod walk;
