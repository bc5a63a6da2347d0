//! The event journal: everything that clients may ask for again, in order.
//!
//! State events in it are derived from `state.log`, which is what makes them durable; the journal is synced lazily and
//! completed from the log at the next start. Agent output is in the journal only, and the oldest goes when there is too much.

mod batch;
mod event_id;
mod file;
mod index;
mod lines;
mod memory;
mod retention;
mod segment;
mod tail;

use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};

use hankweave_core::wire::JournalEntry;

pub use batch::{Batch, BatchLine};
pub(crate) use event_id::state_event_id;
pub use file::{FileJournal, JournalLimits};
pub use memory::MemoryJournal;
pub use tail::{JournalTail, Passed, TailLine};

use crate::world::disk::Disk;

/// Shows the lines of one file of a journal, oldest first, as they stand there. A line that is longer than any of ours takes no memory.
///
/// # Errors
///
/// What the system says.
pub fn each_line(disk: &dyn Disk, file: &Path, mut each: impl FnMut(&[u8])) -> io::Result<()> {
    let long = lines::LongLines::default();
    let mut lines = lines::Lines::new(disk, file, &long, 0);
    while let Some(line) = lines.next_line()? {
        each(line.bytes);
    }
    Ok(())
}

/// Keeps events and gives them out again. One task appends; any number may read at the same time.
pub trait EventJournal: Send + Sync + Debug {
    /// Adds entries, which continue the order of `seq`. They can be read at once and are durable after [`sync`](Self::sync).
    ///
    /// # Errors
    ///
    /// [`JournalError`]; none of the entries is then in the journal, as far as the disk still obeys.
    fn append(&self, batch: &Batch) -> Result<(), JournalError>;

    /// Returns once everything that was appended is durable.
    ///
    /// # Errors
    ///
    /// [`JournalError`]; do not try again, nobody knows what is durable.
    fn sync(&self) -> Result<(), JournalError>;

    /// Makes the entries with a `seq` greater than `after` durable by writing them again: an earlier life may have failed to sync them, and then
    /// they can be read, yet no [`sync`](Self::sync) brings them to the disk.
    ///
    /// # Errors
    ///
    /// [`JournalError`]; nothing may be appended then.
    fn write_again(&self, after: u64) -> Result<(), JournalError>;

    /// Puts entries in that a crash took, each at its place in the order of `seq`, and makes them durable.
    ///
    /// # Errors
    ///
    /// [`JournalError`]; the journal is then as it was.
    fn restore(&self, entries: Vec<JournalEntry>) -> Result<(), JournalError>;

    /// The entries with a `seq` greater than `after`, oldest first, as many as `limit` allows.
    ///
    /// # Errors
    ///
    /// [`JournalError`] when the disk refuses; lines that cannot be read are counted, not reported as errors.
    fn read_after(&self, after: u64, limit: PageLimit) -> Result<Page, JournalError>;

    /// Shows the same as the lines that stand in the journal, each with its `seq`, for whoever passes them on: they are JSON and need not be
    /// understood for that. Ends with the first line that `show` does not want, which it says with `false`.
    ///
    /// # Errors
    ///
    /// [`JournalError`], as [`read_after`](Self::read_after).
    fn lines_after(&self, after: u64, show: &mut dyn FnMut(u64, &[u8]) -> bool) -> Result<(), JournalError>;

    /// Whether [`tidy`](Self::tidy) has something to do.
    fn is_untidy(&self) -> bool {
        false
    }

    /// Does what can wait and may take seconds, such as forgetting the oldest output of agents; others append and read meanwhile. What it does not
    /// finish, because the disk refuses or the process ends, is done another time.
    fn tidy(&self) {}

    /// How many entries there are. The first call may have to read everything.
    ///
    /// # Errors
    ///
    /// [`JournalError`] when the disk refuses.
    fn count(&self) -> Result<u64, JournalError>;

    /// The highest `seq` in the journal; 0 when it is empty.
    fn last_seq(&self) -> u64;
}

/// How much one page may hold. A page always holds one entry if there is one, however large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageLimit {
    /// At most so many entries.
    pub entries: usize,
    /// At most so many bytes of lines.
    pub bytes: usize,
}

impl PageLimit {
    /// The largest page that goes to a client (D6).
    pub const CLIENT: Self = Self {
        entries: 1_000,
        bytes: 1 << 20,
    };
}

/// A part of the journal.
#[derive(Debug, Default)]
pub struct Page {
    /// The entries, oldest first.
    pub entries: Vec<JournalEntry>,
    /// How many lines could not be read on the way.
    pub corrupt_lines: u64,
    /// Whether there is more behind the last entry.
    pub more: bool,
}

/// The disk refused a step on the journal.
#[derive(Debug, thiserror::Error)]
#[error("failed to {action} `{}`", path.display())]
pub struct JournalError {
    /// What was tried.
    pub action: &'static str,
    /// With what.
    pub path: PathBuf,
    /// What the system said.
    #[source]
    pub source: io::Error,
}

#[cfg(test)]
mod contract;
