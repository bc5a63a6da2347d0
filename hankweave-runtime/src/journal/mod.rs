//! The event journal: every event that clients may ask for again, in order.
//!
//! State events are durable in `state.log`; the journal has copies of them, is synced lazily, and is completed from the log at the
//! next start. All other events, such as the output of agents, are only in the journal. When the journal is too large, its oldest
//! output of agents is removed.

mod batch;
mod event_id;
mod file;
mod lines;
mod memory;
mod recorded;
mod retention;
mod search;
mod segment;
mod tail;

use std::fmt::Debug;
use std::io;
use std::path::Path;

use hankweave_core::wire::JournalEntry;

pub use batch::{Batch, BatchLine};
pub(crate) use event_id::state_event_id;
pub use file::{FileJournal, JournalLimits};
pub use memory::MemoryJournal;
pub use recorded::RecordedJournal;
pub use search::{last, newest, segments};
pub use tail::{JournalTail, SkippedInput, TailLine};

use crate::world::disk::{Disk, IoError};

/// Passes the lines of one file of a journal to `each`, oldest first. A line that is too long is not read into
/// memory.
///
/// # Errors
///
/// Returns the error of the operating system.
pub fn each_line(disk: &dyn Disk, file: &Path, mut each: impl FnMut(&[u8])) -> io::Result<()> {
    let mut lines = lines::LineReader::new(disk, file, 0);
    while let Some(line) = lines.next_line()? {
        each(line.bytes);
    }
    Ok(())
}

/// Recorded events, for any number of readers.
pub trait EventHistory: Send + Sync + Debug {
    /// Passes the entries with a `seq` greater than `after` to `show`, oldest first: the `seq` and the line. The lines are JSON, and are not decoded, for
    /// readers that pass them on. Ends when `show` returns `false`.
    ///
    /// # Errors
    ///
    /// [`IoError`] when the disk refuses.
    fn lines_after(&self, after: u64, show: &mut dyn FnMut(u64, &[u8]) -> bool) -> Result<(), IoError>;

    /// Returns the number of entries. The first call may have to read all files.
    ///
    /// # Errors
    ///
    /// [`IoError`] when the disk refuses.
    fn count(&self) -> Result<u64, IoError>;
}

/// Storage of events. One task appends; any number of readers may read at the same time.
pub trait EventJournal: EventHistory {
    /// Adds entries, which continue the order of `seq`. They can be read at once and are durable after
    /// [`sync`](Self::sync).
    ///
    /// # Errors
    ///
    /// [`IoError`]; then none of the entries is in the journal, unless the disk also fails to remove a part that was written.
    fn append(&self, batch: &Batch) -> Result<(), IoError>;

    /// Returns once all appended entries are durable.
    ///
    /// # Errors
    ///
    /// [`IoError`]; do not retry, because it is unknown which entries are durable.
    fn sync(&self) -> Result<(), IoError>;

    /// Makes the entries with a `seq` greater than `after` durable by writing them again. An earlier process
    /// may have failed to sync them. Such entries can be read, yet no [`sync`](Self::sync) writes them to the
    /// disk.
    ///
    /// # Errors
    ///
    /// [`IoError`]; nothing may be appended then.
    fn write_again(&self, after: u64) -> Result<(), IoError>;

    /// Inserts entries that a crash took from the journal, in the order of `seq`, and makes them durable.
    ///
    /// # Errors
    ///
    /// [`IoError`]; the journal is then as before.
    fn restore(&self, entries: Vec<JournalEntry>) -> Result<(), IoError>;

    /// Returns the entries with a `seq` greater than `after`, oldest first, as many as `limit` allows.
    ///
    /// # Errors
    ///
    /// [`IoError`] when the disk refuses; lines that cannot be read are counted, not reported as errors.
    fn read_after(&self, after: u64, limit: PageLimit) -> Result<JournalPage, IoError>;

    /// Whether [`tidy`](Self::tidy) has something to do.
    fn is_untidy(&self) -> bool {
        false
    }

    /// Does work that can wait and may take seconds: removes the oldest output of agents if the journal is too large. Entries can be
    /// appended and read meanwhile. Work that is not finished, because of the disk or the end of the process, is
    /// done another time.
    fn tidy(&self) {}

    /// The highest `seq` in the journal; 0 when it is empty.
    fn last_seq(&self) -> u64;
}

/// How much one page may hold. A page always holds one entry if there is one, however large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageLimit {
    /// Maximum number of entries.
    pub entries: usize,
    /// Maximum number of bytes of lines.
    pub bytes: usize,
}

impl PageLimit {
    /// The largest page that is sent to a client (D6).
    pub const CLIENT: Self = Self {
        entries: 1_000,
        bytes: 1 << 20,
    };
}

/// A part of the journal.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct JournalPage {
    /// The entries, oldest first.
    pub entries: Vec<JournalEntry>,
    /// Number of lines that could not be decoded.
    pub corrupt_lines: u64,
    /// Whether more entries follow.
    pub more: bool,
}

#[cfg(test)]
#[path = "tests/contract.rs"]
mod contract;
