use hankweave_core::machine;

#[machine(Door)]
#[derive(forger::Forge)]
pub enum DoorRecord {
    #[initial]
    #[to(open => Opened)]
    Closed,
    #[to(close => Closed, remove => Removed)]
    Opened,
    #[terminal]
    Removed,
}

fn main() {}
