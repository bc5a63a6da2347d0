use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(knock => Closed, push => Open)]
    Closed,
    #[terminal]
    Open,
}

fn main() {}
