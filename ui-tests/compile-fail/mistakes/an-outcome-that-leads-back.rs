use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(lock => Locked | Closed, into => Locked)]
    Closed,
    #[to(unlock => Closed, remove => Removed)]
    Locked,
    #[terminal]
    Removed,
}
fn main() {}
