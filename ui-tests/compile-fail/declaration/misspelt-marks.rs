use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(remove => Removed)]
    Closed {
        #[live(start = 0)]
        pushes: u8,
        #[keeps]
        note: String,
    },
    #[terminal]
    #[keep(pushes)]
    Removed {
        #[cary(pushes)]
        pushed: u8,
        #[carry]
        note: String,
    },
}

fn main() {}
