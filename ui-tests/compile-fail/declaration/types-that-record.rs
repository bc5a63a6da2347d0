use hankweave_core::machine;

#[machine(Meter, types)]
pub enum AnyMeter {
    #[initial]
    #[to(remove => Removed)]
    Running {
        #[live(start = 0, add, record)]
        count: u32,
    },
    #[terminal]
    Removed,
}

fn main() {}
