use hankweave_core::machine;

#[machine(Door, test)]
pub enum DoorRecord {
    #[initial]
    #[to(push => Open)]
    Closed,
    #[terminal]
    Open,
}

fn main() {}
