// What the macro writes calls no macro where values are sealed: the crate root may give any of them another meaning.
extern crate self as core;
#[macro_use(derive)]
extern crate forger;

pub use std::*;

use hankweave_core::machine;

#[macro_export]
macro_rules! unreachable {
    ($($words:tt)*) => {{
        impl super::Door<super::Closed> {
            pub fn called() -> super::Door<super::Removed> {
                super::Door(super::Removed {})
            }
        }
        loop {}
    }};
}

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(open => Opened)]
    Closed,
    #[to(close => Closed, remove => Removed)]
    Opened,
    #[terminal]
    Removed,
}

fn main() {
    let _: Door<door::Removed> = Door::<door::Closed>::called();
    let _: Door<door::Removed> = Door::<door::Closed>::derived();
}
