//! The event journal: everything that clients may ask for again, in order.
//!
//! State events in it are derived from `state.log`, which is what makes them durable; the journal is synced lazily and
//! completed from the log at the next start. Agent output is in the journal only, and the oldest goes when there is too much.

mod batch;
mod file;
mod index;
mod lines;
mod memory;
mod retention;
mod segment;
mod tail;

use std::fmt::Debug;
use std::io;
use std::path::PathBuf;

use hankweave_core::wire::JournalEntry;

pub use batch::Batch;
pub use file::{FileJournal, JournalLimits};
pub use memory::MemoryJournal;
pub use tail::{JournalTail, Passed, TailLine};

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

    /// The same as the lines that stand in the journal, for whoever passes them on: they need not be understood for that.
    ///
    /// # Errors
    ///
    /// [`JournalError`], as [`read_after`](Self::read_after).
    fn lines_after(&self, after: u64, limit: PageLimit) -> Result<LinePage, JournalError>;

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
    /// The largest page that goes to a client ("reliability and security", rule D6).
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

/// A part of the journal as text: one JSON object for each entry, as a client gets it.
#[derive(Debug, Default)]
pub struct LinePage {
    /// All lines, one behind the other, without anything between them.
    text: String,
    /// The `seq` of each line, and where it ends in `text`.
    ends: Vec<(u64, usize)>,
    /// How many lines could not be read on the way.
    pub corrupt_lines: u64,
    /// Whether there is more behind the last line.
    pub more: bool,
}

impl LinePage {
    /// The lines with their `seq`, oldest first.
    pub fn lines(&self) -> impl ExactSizeIterator<Item = (u64, &str)> {
        let mut begin = 0;
        self.ends.iter().map(move |(seq, end)| {
            let line = &self.text[begin..*end];
            begin = *end;
            (*seq, line)
        })
    }

    /// The `seq` of the last line.
    #[must_use]
    pub fn last_seq(&self) -> Option<u64> {
        self.ends.last().map(|(seq, _)| *seq)
    }

    /// Leaves out what is behind number `until`.
    pub(crate) fn end_with(&mut self, until: u64) {
        let kept = self.ends.partition_point(|(seq, _)| *seq <= until);
        if kept < self.ends.len() {
            self.ends.truncate(kept);
            self.text.truncate(self.ends.last().map_or(0, |(_, end)| *end));
            self.more = false;
        }
        // Nothing that is left belongs to this part.
        self.more &= self.last_seq().is_some_and(|last| last < until);
    }

    /// Adds a line unless that were too much, which it says.
    fn push(&mut self, seq: u64, line: &str, limit: PageLimit) -> bool {
        let full = self.ends.len() >= limit.entries || self.text.len() + line.len() > limit.bytes;
        if full && !self.ends.is_empty() {
            self.more = true;
            return false;
        }
        self.text.push_str(line);
        self.ends.push((seq, self.text.len()));
        true
    }
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
