use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(open_up => Open, open__up => Gone)]
    Closed,
    #[terminal]
    Open,
    #[terminal]
    Gone,
}

fn main() {}
