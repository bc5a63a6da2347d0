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

impl<'a> door::illegal::ClosedRemove<'a> for door::Closed {}

fn step() {
    Door::new().remove();
}
