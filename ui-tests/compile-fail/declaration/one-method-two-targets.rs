use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(push => Ajar)]
    Closed,
    #[to(push => Open)]
    Ajar,
    #[terminal]
    Open,
}

fn main() {}
