use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(open => Open)]
    Closed,
    #[to(open => Open)]
    Ajar,
    #[terminal]
    Open,
}

fn main() {}
