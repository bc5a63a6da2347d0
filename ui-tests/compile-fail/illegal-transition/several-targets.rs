use hankweave_core::machine;

#[machine(Light)]
pub enum LightRecord {
    #[initial]
    #[to(next => Green)]
    Red,
    #[to(next => Red, remove => Removed)]
    Green,
    #[terminal]
    Removed,
}

fn main() {
    let _ = Light::new().next().remove().next();
}
