//! The machine with state-shift.

pub mod machine;
pub mod walk;
