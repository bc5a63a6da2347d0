//! The sentinel machine: 3 states, 3 edges. A sentinel is unloaded once (SENT-6).

use crate::codon::UnloadReason;
use crate::id::SentinelId;
use crate::machine;
use crate::time::Timestamp;

/// Whether a sentinel watches, and how and when it stopped.
#[machine(Sentinel, tests)]
#[serde(tag = "status", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum SentinelLife {
    /// Fields of every state.
    #[shared]
    Base {
        /// The sentinel.
        id: SentinelId,
        /// The model that it asks.
        model: String,
        /// When it was loaded.
        loaded_at: Timestamp,
    },

    /// It sees what happens and acts on it.
    #[initial]
    #[to(drain => Draining, unload => Unloaded)]
    Watching,

    /// Its agent has ended; it works off what waits.
    #[to(unload => Unloaded)]
    Draining,

    /// It does nothing more.
    #[terminal]
    Unloaded {
        /// When it stopped.
        unloaded_at: Timestamp,
        /// Why.
        reason: UnloadReason,
    },
}
