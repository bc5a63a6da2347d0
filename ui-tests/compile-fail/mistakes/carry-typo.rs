use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(open => Opened, lock => Locked)]
    Closed,
    #[to(close => Closed, remove => Removed)]
    Opened,
    #[to(unlock => Closed, smash => Broken)]
    Locked { code: u32 },
    #[to(smash => Removed)]
    Broken,
    #[terminal]
    Removed {
        #[carry(cod)]
        code: u32,
    },
}
fn main() {}
