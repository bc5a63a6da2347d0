use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(push => Open)]
    Closed,
    #[to(push => Open)]
    Ajar,
    #[terminal]
    Open,
}

fn main() {}
