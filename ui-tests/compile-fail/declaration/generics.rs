use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord<T> {
    #[initial]
    #[to(push => Open)]
    Closed,
    #[terminal]
    Open { visitor: T },
}

fn main() {}
