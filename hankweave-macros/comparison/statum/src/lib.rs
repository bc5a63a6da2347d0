//! The machine with statum.

pub mod machine;
pub mod walk;
