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
        #[carry(start = 1, next = |tries| tries.to_string())]
        tries: u32,
    },
    #[terminal]
    Removed,
}
fn main() {}
