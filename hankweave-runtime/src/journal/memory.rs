//! A journal in memory, which lives as long as the process.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hankweave_core::wire::JournalEntry;

use super::lines::decode;
use super::{Batch, EventHistory, EventJournal, JournalPage, PageLimit};
use crate::world::disk::IoError;

/// Keeps the lines in memory, for tests and for programs that embed hankweave.
#[derive(Debug, Default)]
pub struct MemoryJournal {
    lines: Mutex<Vec<JournalLineEntry>>,
}

/// The number of an event, and its line.
type JournalLineEntry = (u64, String);

impl MemoryJournal {
    fn lines(&self) -> MutexGuard<'_, Vec<JournalLineEntry>> {
        // Every change of the list is a single call, so a panic elsewhere leaves it whole.
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventJournal for MemoryJournal {
    fn append(&self, batch: &Batch) -> Result<(), IoError> {
        self.lines().extend(stored(batch));
        Ok(())
    }

    fn sync(&self) -> Result<(), IoError> {
        Ok(())
    }

    fn write_again(&self, _after: u64) -> Result<(), IoError> {
        Ok(())
    }

    fn restore(&self, entries: Vec<JournalEntry>) -> Result<(), IoError> {
        let mut all = self.lines();
        all.extend(stored(&Batch::new(&entries)));
        all.sort_by_key(|(seq, _)| *seq);
        Ok(())
    }

    fn read_after(&self, after: u64, limit: PageLimit) -> Result<JournalPage, IoError> {
        let all = self.lines();
        let mut page = JournalPage::default();
        let mut bytes = 0;
        for (_, line) in lines_after(&all, after) {
            let Some(entry) = decode(line.as_bytes()) else {
                page.corrupt_lines += 1;
                continue;
            };
            bytes += line.len() + 1;
            if page.is_full(bytes, limit) {
                page.more = true;
                break;
            }
            page.entries.push(entry);
        }
        Ok(page)
    }

    fn last_seq(&self) -> u64 {
        self.lines().last().map_or(0, |(seq, _)| *seq)
    }
}

impl EventHistory for MemoryJournal {
    fn lines_after(&self, after: u64, show: &mut dyn FnMut(u64, &[u8]) -> bool) -> Result<(), IoError> {
        let all = self.lines();
        let mut later = lines_after(&all, after).iter();
        let _ = later.all(|(seq, line)| show(*seq, line.as_bytes()));
        Ok(())
    }

    fn count(&self) -> Result<u64, IoError> {
        Ok(self.lines().len() as u64)
    }
}

/// Returns the events of a batch as this journal stores them.
fn stored(batch: &Batch) -> impl Iterator<Item = JournalLineEntry> {
    batch.lines().map(|line| (line.seq(), line.text().to_owned()))
}

fn lines_after(all: &[JournalLineEntry], after: u64) -> &[JournalLineEntry] {
    &all[all.partition_point(|(seq, _)| *seq <= after)..]
}

impl JournalPage {
    /// Whether the page has no room for one more entry, with which it would hold `bytes`.
    pub(super) fn is_full(&self, bytes: usize, limit: PageLimit) -> bool {
        !self.entries.is_empty() && (self.entries.len() >= limit.entries || bytes > limit.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_the_contract_of_a_journal() {
        super::super::contract::check(|| (MemoryJournal::default(), ()));
    }
}
