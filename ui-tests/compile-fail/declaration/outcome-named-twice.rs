use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(push => Opened | Broken | Opened)]
    Closed,
    #[terminal]
    Opened,
    #[terminal]
    Broken,
}

fn main() {}
