use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(open => Opened)]
    Closed,
    #[to(close => Closed, remove => Removed)]
    Opened {
        angle: [u8; {
            impl sealed::Transition<Removed> for Closed {}
            impl guarded::sealed::Transition<Removed> for Closed {}
            fn forged() -> Door<Removed> {
                Door(Removed {})
            }
            3
        }],
    },
    #[terminal]
    Removed,
}

fn main() {}
