use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(push => Open, jam => Jammed)]
    Closed { pushes: u32 },
    #[to(kick => Open)]
    Jammed { pushes: u64 },
    #[terminal]
    #[keeps(pushes)]
    Open,
}

fn main() {}
