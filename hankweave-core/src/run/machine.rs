//! The run machine: 4 states, 3 edges. A run leaves `running` once (STATE-24).

use crate::id::RunId;
use crate::machine;
use crate::time::Timestamp;

/// Whether a run continues, and how and when it ended.
#[machine(Run, tests, schema = "schema")]
#[serde(tag = "status", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum RunLife {
    /// Fields of every state.
    #[shared]
    Base {
        /// The run.
        run_id: RunId,
        /// Time of its start.
        start_time: Timestamp,
    },

    /// A server works on it, or did so until it crashed unnoticed.
    #[initial]
    #[to(complete => Completed, fail => Failed, crash => Crashed)]
    Running,

    /// Everything was done.
    #[terminal]
    Completed {
        /// When it ended.
        end_time: Timestamp,
    },

    /// It stopped before everything was done.
    #[terminal]
    Failed {
        /// When it ended.
        end_time: Timestamp,
    },

    /// Its server vanished.
    #[terminal]
    Crashed {
        /// When that was noticed.
        end_time: Timestamp,
    },
}
