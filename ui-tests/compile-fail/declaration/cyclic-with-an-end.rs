use hankweave_core::machine;

#[machine(Light, cyclic)]
pub enum LightRecord {
    #[initial]
    #[to(go => Green)]
    Red,
    #[to(stop => Red, remove => Removed)]
    Green,
    #[terminal]
    Removed,
}

fn main() {}
