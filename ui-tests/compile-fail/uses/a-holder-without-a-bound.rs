use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(open => Opened, lock => Locked)]
    Closed,
    #[to(close => Closed, settle => Closed | Removed)]
    Opened,
    #[to(unlock => Closed)]
    Locked {
        #[live(start = 0)]
        code: u32,
        why: String,
    },
    #[terminal]
    Removed,
}

struct Holder<S> {
    door: Door<S>,
}
fn main() {}
