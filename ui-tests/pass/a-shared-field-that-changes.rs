use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[shared]
    Base {
        #[live(start = 0)]
        pushes: u32,
    },
    #[initial]
    #[to(push => Open)]
    Closed,
    #[terminal]
    Open,
}

fn main() {}
