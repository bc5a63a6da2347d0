//! The machine as typed states by hand, with the stored enum, events and `apply`.

pub mod machine;
pub mod walk;
