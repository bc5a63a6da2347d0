use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(remove => Removed)]
    Closed { colour: &'static str, name: Option<&str> },
    #[terminal]
    #[keeps(colour)]
    Removed,
}

fn main() {}
