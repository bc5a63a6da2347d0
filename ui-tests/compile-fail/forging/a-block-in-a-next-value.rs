use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(open => Opened)]
    Closed {
        #[carry(start = 0, next = {
            use guarded::sealed::Transition as Seal;
            use {Closed as C, Door as D, Removed as R};
            impl Seal<R> for C {}
            fn forged() -> D<R> {
                D(R {})
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
