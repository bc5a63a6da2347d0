use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(open => Opened)]
    Closed,
    #[to(remove => Removed)]
    Opened,
    #[terminal]
    Removed,
}

fn main() {}

impl door::Transition<door::Removed> for door::Closed {}
