//! A machine of a user, without any data.

use hankweave_core::machine;

/// A door as it is stored.
#[machine(Door)]
pub enum DoorRecord {
    /// No visitor can pass.
    #[initial]
    #[to(push => Open, wall_up => Gone)]
    Closed,
    /// Every visitor can pass.
    #[to(pull => Closed)]
    Open,
    /// There is no door any more.
    #[terminal]
    Gone,
}

fn main() {
    let gone = Door::new().push().pull().wall_up();
    assert!(gone.into_record().is_terminal());
}
