//! The `hankweave` binary.
fn main() {}
