use hankweave_core::machine;

#[machine(Door)]
#[machine(Gate)]
pub enum DoorRecord {
    #[initial]
    #[to(open => Opened)]
    Closed,
    #[terminal]
    Opened,
}

fn main() {}
