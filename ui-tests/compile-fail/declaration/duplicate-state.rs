use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(open => Open)]
    Closed,
    #[terminal]
    Open,
    #[terminal]
    Open,
}

fn main() {}
