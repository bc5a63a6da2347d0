use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(open => Opened, lock => Locked)]
    Closed,
    #[to(close => Closed, remove => Removed)]
    Opened,
    #[to(unlock => Closed)]
    Locked { code: u32 },
    #[terminal]
    Removed,
}
fn go(r: DoorRecord) {
    match r {
        DoorRecord::Closed(c) => {
            c.lock(door::Lock { code: 2 });
        }
        _ => {}
    }
}
fn main() {}
