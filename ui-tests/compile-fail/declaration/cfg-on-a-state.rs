use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(push => Open)]
    Closed,
    #[cfg(feature = "glass")]
    #[terminal]
    Broken,
    #[terminal]
    Open,
}

fn main() {}
