use hankweave_core::machine;

#[machine(Door)]
pub struct Door;

fn main() {}
