use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[shared]
    Base {
        #[extra]
        rest: Vec<u8>,
    },
    #[initial]
    #[to(remove => Removed)]
    Closed {
        #[live(start = "none")]
        pushes: u8,
    },
    #[terminal]
    Removed {
        #[origin]
        removed_during: String,
        #[fixed("gone")]
        code: u8,
        #[carry(next = |pushes| format!("{pushes}"))]
        pushes: u8,
    },
}

fn main() {}
