use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(push => Open)]
    Closed { visits: u32 },
    #[terminal]
    Open {
        #[carry]
        #[fixed(3)]
        visits: u32,
    },
}

fn main() {}
