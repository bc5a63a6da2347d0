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
fn go<S: DoorState>(d: Door<S>) {
    d.open();
}
fn main() {}
