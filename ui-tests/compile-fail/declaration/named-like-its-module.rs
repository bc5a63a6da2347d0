use hankweave_core::machine;

#[machine(door)]
pub enum DoorRecord {
    #[initial]
    #[to(lock => Locked)]
    Closed,
    #[terminal]
    Locked,
}

fn main() {}
