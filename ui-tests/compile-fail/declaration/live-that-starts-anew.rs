use hankweave_core::machine;

#[machine(Player)]
pub enum PlayerRecord {
    #[group]
    #[to(eject => Ejected)]
    Loaded {
        #[live(start = 0, add)]
        position: u32,
    },
    #[initial]
    #[to(play => Playing)]
    Empty,
    #[within(Loaded)]
    #[to(pause => Paused)]
    Playing,
    #[within(Loaded)]
    #[to(play => Playing)]
    Paused,
    #[terminal]
    Ejected,
}

fn main() {}
