use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord<'a> {
    #[initial]
    #[to(push => Open)]
    Closed,
    #[terminal]
    Open { visitor: &'a str },
}

fn main() {}
