//! A machine of one's own, without any data.

use hankweave_core::machine;

/// A door as it is stored.
#[machine(Door)]
pub enum DoorRecord {
    /// Nobody can pass.
    #[initial]
    #[to(push => Open, wall_up => Gone)]
    Closed,
    /// Everybody can pass.
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
