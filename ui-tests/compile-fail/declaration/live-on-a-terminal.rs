use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(push => Open)]
    Closed,
    #[terminal]
    Open {
        #[live(start = 0)]
        visitors: u32,
    },
}

fn main() {}
