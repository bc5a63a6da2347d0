use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(push => Open)]
    Closed,
    #[to(pull => Closed)]
    Open,
}

fn main() {}
