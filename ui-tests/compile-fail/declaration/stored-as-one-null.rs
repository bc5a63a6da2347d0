use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(remove => Removed)]
    Closed { code: Option<Option<u8>>, knock: Option<()> },
    #[terminal]
    #[keeps(code)]
    Removed,
}

fn main() {}
