use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(open => Opened)]
    Closed {
        #[carry(start = 0, next = {
            impl sealed::Transition<Removed> for Closed {}
            impl guarded::sealed::Transition<Removed> for Closed {}
            fn forged() -> Door<Removed> {
                Door(Removed {})
            }
            |turns: u8| turns + 1
        })]
        turns: u8,
    },
    #[to(close => Closed, remove => Removed)]
    Opened {
        #[carry]
        turns: u8,
    },
    #[terminal]
    Removed,
}

fn main() {}
