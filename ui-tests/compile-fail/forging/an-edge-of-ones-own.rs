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

impl door::Edge<door::Closed> for door::Remove {
    type To = door::Removed;

    fn advance(self, _: door::Closed) -> door::Removed {
        door::Removed {}
    }

    fn record(&self) -> DoorTransition {
        DoorTransition::Remove
    }
}
