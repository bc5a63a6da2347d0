//! The machine with `#[machine]`, types alone.

pub mod machine;
pub mod walk;
