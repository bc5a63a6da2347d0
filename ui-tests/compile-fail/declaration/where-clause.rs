use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord
where
    String: Clone,
{
    #[initial]
    #[to(push => Open)]
    Closed,
    #[terminal]
    Open,
}

fn main() {}
