use hankweave_core::machine;

#[machine(D)]
pub enum DoorRecord {
    #[initial]
    #[to(lock => Locked)]
    Closed,
    #[terminal]
    Locked,
}

fn main() {}
