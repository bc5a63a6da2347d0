use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(_1 => Open, push => Open)]
    Closed,
    #[terminal]
    Open,
}

fn main() {}
