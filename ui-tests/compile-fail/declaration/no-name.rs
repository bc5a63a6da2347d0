use hankweave_core::machine;

#[machine]
pub enum DoorRecord {
    #[initial]
    #[to(open => Open)]
    Closed,
    #[terminal]
    Open,
}

fn main() {}
