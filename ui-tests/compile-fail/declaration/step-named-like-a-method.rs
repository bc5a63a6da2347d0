use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(step => Open)]
    Closed,
    #[terminal]
    Open,
}

fn main() {}
