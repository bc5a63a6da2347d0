//! The machine as typed states by hand, and nothing else.

pub mod machine;
pub mod walk;
