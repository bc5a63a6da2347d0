use hankweave_core::machine;

#[machine(Door)]
pub struct DoorRecord {
    a: u8,
}
fn main() {}
