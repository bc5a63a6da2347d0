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

fn go(closed: Door<door::Closed>, opened: Door<door::Opened>) {
    let _ = vec![closed, opened];
}
fn main() {}
