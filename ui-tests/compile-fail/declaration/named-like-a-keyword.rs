use hankweave_core::machine;

#[machine(Match)]
pub enum MatchRecord {
    #[initial]
    #[to(win => Won)]
    Playing,
    #[terminal]
    Won,
}

fn main() {}
