use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(lock => Locked)]
    Closed { opened: u64 },
    #[terminal]
    Locked {
        #[carry(opened)]
        times: String,
    },
}

fn main() {}
