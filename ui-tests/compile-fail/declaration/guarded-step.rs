use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(open => Opened if unlocked)]
    Closed {
        #[live(start = false)]
        unlocked: bool,
    },
    #[to(remove => Removed)]
    Opened,
    #[terminal]
    Removed,
}

fn main() {}
