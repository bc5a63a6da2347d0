use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(open => Opened)]
    Closed,
    #[to(close => Closed, remove => Removed)]
    Opened {
        #[fixed({
            use guarded::sealed::Transition as Seal;
            use {Closed as C, Door as D, Removed as R};
            impl Seal<R> for C {}
            fn forged() -> D<R> {
                D(R {})
            }
            3
        })]
        hinges: u8,
    },
    #[terminal]
    Removed,
}

fn main() {}
