use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(push => Open)]
    Closed,
    #[terminal]
    #[keeps(key)]
    Open,
}

fn main() {}
