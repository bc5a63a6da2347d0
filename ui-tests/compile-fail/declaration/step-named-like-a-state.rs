use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(open => Open)]
    Closed,
    #[terminal]
    Open,
}

fn main() {}
