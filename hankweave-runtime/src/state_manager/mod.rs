//! The single writer of the state document.
//!
//! Events wait in a queue. The writer, one task, takes all waiting events, applies each, makes the accepted ones durable
//! with one write and one sync of `state.log`, and only then shows the new state and resolves the tickets. The
//! journal writer, a second task, writes the accepted events into the journal and publishes them, while the writer
//! waits for the disk again. Snapshots of the document (`state.json`) are written at the same time.
//!
//! ```text
//! handle ── queue ──► writer: encode, apply ──► log + sync ──► state visible ──► tickets
//!                                          ├── queue ──► journal writer: journal ──► subscribers
//!                                          └── snapshots: render ──► mark in the log ──► state.json
//! ```

mod actor;
mod costs;
mod degraded;
mod error;
mod handle;
mod journal_writer;
mod load;
mod publish;
mod request;
mod snapshots;

use std::sync::Arc;

use crate::journal::EventJournal;
use crate::store::StateFiles;
use crate::world::blocking::Blocking;
use crate::world::clock::Clock;
use crate::world::ids::IdSource;

pub use actor::StateManagerTask;
pub use costs::CostFigures;
pub use error::{LoadError, PersistenceError, TransitionError};
pub use handle::{StateManager, Ticket};
pub use load::{LoadedState, Strictness, load, peek};
pub use publish::{Delivery, Events, Subscription};
pub use request::Receipt;

/// Parts of the state manager.
#[derive(Debug, Clone)]
pub struct StateManagerParts {
    /// The state files; the instance lock must be held.
    pub files: StateFiles,
    /// The journal.
    pub journal: Arc<dyn EventJournal>,
    /// Clock for the times of the records.
    pub clock: Arc<dyn Clock>,
    /// Source of the ids of journal entries.
    pub ids: Arc<dyn IdSource>,
    /// Pool for disk work.
    pub blocking: Blocking,
}

#[cfg(test)]
mod tests;
