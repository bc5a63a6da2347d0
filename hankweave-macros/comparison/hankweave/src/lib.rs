//! The machine with `#[machine]`.

pub mod machine;
pub mod walk;
