//! A machine of one's own, without any data.

use hankweave_core::machine;

/// A door as it is stored.
#[machine(Door)]
pub enum DoorRecord {
    /// Nobody can pass.
    #[initial]
    #[to(open => Open, wall_up => Gone)]
    Closed,
    /// Everybody can pass.
    #[to(close => Closed)]
    Open,
    /// There is no door any more.
    #[terminal]
    Gone,
}

fn main() {
    let gone = Door::new().open().close().wall_up();
    assert!(gone.into_execution().is_terminal());
}
