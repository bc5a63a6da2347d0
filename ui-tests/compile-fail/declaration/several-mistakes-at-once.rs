use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(push => Opne)]
    Closed,
    #[terminal]
    #[keeps(key)]
    Open,
    Lost,
}

fn main() {}
