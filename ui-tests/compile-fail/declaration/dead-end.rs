use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(push => Open, jam => Jammed)]
    Closed,
    #[to(shake => Stuck)]
    Jammed,
    #[to(rest => Jammed)]
    Stuck,
    #[terminal]
    Open,
}

fn main() {}
