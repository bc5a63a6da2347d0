use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(push => Open, lock => Locked)]
    Closed,
    Locked,
    #[terminal]
    Open,
}

fn main() {}
