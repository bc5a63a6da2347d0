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
    if let DoorRecord::Closed(c) = r {
        c.open();
    }
}
fn main() {}
