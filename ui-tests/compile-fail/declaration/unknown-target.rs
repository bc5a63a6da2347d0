use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(push => Opne)]
    Closed,
    #[terminal]
    Open,
}

fn main() {}
