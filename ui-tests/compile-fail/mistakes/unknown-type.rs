use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(open => Opened, lock => Locked)]
    Closed,
    #[to(close => Closed, remove => Removed)]
    Opened,
    #[to(unlock => Closed, guess => Self)]
    Locked {
        code: Cod,
    },
    #[terminal]
    Removed,
}
fn main() {}
