use hankweave_core::machine;

fn main() {}

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[initial("again")]
    #[to(remove => Removed)]
    Closed,
    #[terminal]
    #[terminal]
    Removed,
}
