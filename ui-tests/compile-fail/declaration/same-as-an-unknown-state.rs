use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(push => Ajar)]
    Closed,
    #[to(push_on => Open)]
    #[same_as(Close)]
    Ajar,
    #[terminal]
    Open,
}

fn main() {}
