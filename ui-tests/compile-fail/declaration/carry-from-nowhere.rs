use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(push => Open)]
    Closed { pushes: u32 },
    #[terminal]
    Open {
        #[carry(pushs)]
        pushes: u32,
    },
}

fn main() {}
