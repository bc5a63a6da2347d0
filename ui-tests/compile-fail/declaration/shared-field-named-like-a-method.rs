use hankweave_core::machine;

#[machine(Door)]
#[serde(tag = "state")]
pub enum DoorRecord {
    #[shared]
    Base { status: String },
    #[initial]
    #[to(push => Open)]
    Closed,
    #[terminal]
    Open,
}

fn main() {}
