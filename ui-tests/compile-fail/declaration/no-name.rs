use hankweave_core::machine;

#[machine]
pub enum DoorRecord {
    #[initial]
    #[to(push => Open)]
    Closed,
    #[terminal]
    Open,
}

fn main() {}
