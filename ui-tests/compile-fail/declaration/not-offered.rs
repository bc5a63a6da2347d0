use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(open if unlocked => Opened)]
    #[on_exit(ring)]
    Closed {
        #[live(start = false)]
        unlocked: bool,
    },
    #[superstate(Usable)]
    #[to(close [is_empty] => Closed, remove => Removed)]
    Opened,
    #[to(mend => Closed / ring)]
    Broken,
    #[to(async remove => Removed)]
    Jammed,
    #[to(remove(by: String) => Removed)]
    Stuck,
    #[to(remove -> Removed)]
    Ajar,
    #[to(Removed)]
    Lost,
    #[terminal]
    Removed,
}

fn main() {}
