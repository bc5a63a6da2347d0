use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(open => Opne)]
    Closed,
    #[terminal]
    Open,
}

fn main() {}
