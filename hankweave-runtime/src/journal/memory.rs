//! A journal that lives as long as the process.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hankweave_core::wire::JournalEntry;

use super::{Batch, EventJournal, JournalError, Page, PageLimit, lines};

/// Keeps the entries in memory, for tests and for programs that embed hankweave.
#[derive(Debug, Default)]
pub struct MemoryJournal {
    entries: Mutex<Vec<JournalEntry>>,
}

impl MemoryJournal {
    fn entries(&self) -> MutexGuard<'_, Vec<JournalEntry>> {
        // Every change of the list is a single call, so a panic elsewhere leaves it whole.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventJournal for MemoryJournal {
    fn append(&self, batch: &Batch) -> Result<(), JournalError> {
        self.entries().extend_from_slice(batch.entries());
        Ok(())
    }

    fn sync(&self) -> Result<(), JournalError> {
        Ok(())
    }

    fn write_again(&self, _after: u64) -> Result<(), JournalError> {
        Ok(())
    }

    fn restore(&self, entries: Vec<JournalEntry>) -> Result<(), JournalError> {
        let mut all = self.entries();
        all.extend(entries);
        all.sort_by_key(|entry| entry.seq);
        Ok(())
    }

    fn read_after(&self, after: u64, limit: PageLimit) -> Result<Page, JournalError> {
        let all = self.entries();
        let mut page = Page::default();
        let mut bytes = 0;
        for entry in &all[all.partition_point(|entry| entry.seq <= after)..] {
            bytes += lines::encode(entry).len();
            if page.is_full(bytes, limit) {
                page.more = true;
                break;
            }
            page.entries.push(entry.clone());
        }
        Ok(page)
    }

    fn lines_after(&self, after: u64, show: &mut dyn FnMut(u64, &[u8]) -> bool) -> Result<(), JournalError> {
        let all = self.entries();
        let mut behind = all[all.partition_point(|entry| entry.seq <= after)..].iter();
        let _ = behind.all(|entry| show(entry.seq, lines::text(entry).as_bytes()));
        Ok(())
    }

    fn count(&self) -> Result<u64, JournalError> {
        Ok(self.entries().len() as u64)
    }

    fn last_seq(&self) -> u64 {
        self.entries().last().map_or(0, |entry| entry.seq)
    }
}

impl Page {
    /// Whether one more entry, with which the page would hold `bytes`, is too much.
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
