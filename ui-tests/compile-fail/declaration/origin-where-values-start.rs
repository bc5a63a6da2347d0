use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(push => Open)]
    Closed {
        #[origin]
        left: DoorPhase,
    },
    #[terminal]
    Open,
}

fn main() {}
