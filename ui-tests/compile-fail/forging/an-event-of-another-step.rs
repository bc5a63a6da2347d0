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

fn forge(door: Door<door::Opened>) -> door::Step<door::Opened> {
    door::Step { door, event: DoorTransition::Remove }
}
