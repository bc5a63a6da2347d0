//! The state document on disk: `state.json`, its backup, and `state.log` with the events after them.
//!
//! An event is durable once its line in `state.log` is synced; the cost of that does not depend on history. `state.json`
//! is a snapshot that is replaced now and then. The log names the snapshot that it continues: before state.json is
//! replaced, a mark with the length and checksum of the new bytes is appended. A start finds the mark that fits the
//! state.json on disk, and applies the records after that mark.
//!
//! Nothing here decides which of several damaged files to trust; `hankweave_core::state::recover` does.

mod file;
mod log;
mod mark;

pub use file::{FoundFile, FoundState, StateFileError, StateFiles};
pub use log::{LogBatch, LogContents, NOTHING_IN_DOUBT, StateLog, read_log};
pub use mark::SnapshotMark;
