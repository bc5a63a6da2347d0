use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[group]
    #[within(Usable)]
    #[to(remove => Removed)]
    Usable,
    #[initial]
    #[within(Usable)]
    #[to(open => Opened, mend => Usable)]
    Closed,
    #[within(Usable)]
    Opened,
    #[terminal]
    Removed,
}

fn main() {}
