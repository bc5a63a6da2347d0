//! Sample machines for the unit tests of this crate. (The trait for made-up values is in `sample.rs`.)

use crate::machine;

/// A job that may be tried again.
#[machine(Job)]
#[serde(rename_all = "lowercase")]
pub(crate) enum JobRecord {
    #[initial]
    #[to(start => Running)]
    Queued,
    #[to(finish => Finished, fail => Failed, retry => Queued)]
    Running,
    #[terminal]
    Finished,
    #[terminal]
    Failed,
}

/// A sign that is hung up, or not.
#[machine(Sign)]
pub(crate) enum SignRecord {
    #[initial]
    #[to(hang => Hung, burn => Burnt)]
    Painted,
    #[terminal]
    Hung,
    #[terminal]
    Burnt,
}
