use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[to(push => Open)]
    Closed,
    #[terminal]
    Open,
}

fn main() {}
