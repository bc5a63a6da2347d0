use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(open => Step)]
    DoorStatus,
    #[terminal]
    Step,
}

#[machine(Gate)]
pub enum Gate {
    #[initial]
    #[to(open => Opened)]
    Closed,
    #[terminal]
    Opened,
}

#[machine(Hatch, types)]
pub enum AnyHatch<Opened, const Edge: usize> {
    #[initial]
    #[to(open => Opened)]
    Closed { by: Opened },
    #[terminal]
    Opened,
}

fn main() {}
