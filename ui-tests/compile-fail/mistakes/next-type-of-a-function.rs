use hankweave_core::machine;

fn following(tries: u32) -> u64 {
    tries.into()
}

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(open => Opened, lock => Locked)]
    Closed,
    #[to(close => Closed, remove => Removed)]
    Opened,
    #[to(unlock => Closed, guess => Self)]
    Locked {
        #[carry(start = 1, next = following)]
        tries: u32,
    },
    #[terminal]
    Removed,
}
fn main() {}
