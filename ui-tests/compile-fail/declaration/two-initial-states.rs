use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(open => Open)]
    Closed,
    #[initial]
    #[to(open => Open)]
    Ajar,
    #[terminal]
    Open,
}

fn main() {}
