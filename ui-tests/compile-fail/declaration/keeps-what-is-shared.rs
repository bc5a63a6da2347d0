use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[shared]
    Base { number: u8 },
    #[initial]
    #[to(remove => Removed)]
    Closed,
    #[terminal]
    #[keeps(number)]
    Removed,
}

fn main() {}
