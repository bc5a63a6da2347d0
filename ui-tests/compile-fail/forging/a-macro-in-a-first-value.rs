use hankweave_core::machine;

macro_rules! forge {
    () => {{
        impl guarded::sealed::Transition<Removed> for Closed {}
        fn forged() -> Door<Removed> {
            Door(Removed {})
        }
        0
    }};
}

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(open => Opened)]
    Closed,
    #[to(close => Closed, remove => Removed)]
    Opened {
        #[live(start = forge!())]
        angle: u8,
    },
    #[terminal]
    Removed,
}

fn main() {}
