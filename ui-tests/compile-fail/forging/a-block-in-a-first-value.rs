use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(open => Opened)]
    Closed,
    #[to(close => Closed, remove => Removed)]
    Opened {
        #[live(start = {
            impl sealed::Transition<Removed> for Closed {}
            impl guarded::sealed::Transition<Removed> for Closed {}
            fn forged() -> Door<Removed> {
                Door(Removed {})
            }
            0
        })]
        angle: u8,
    },
    #[terminal]
    Removed,
}

fn main() {}
