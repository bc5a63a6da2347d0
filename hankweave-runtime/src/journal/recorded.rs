//! The journal of another process, live or ended, for readers that ask for parts of it.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use super::EventHistory;
use super::lines::for_readers;
use super::tail::JournalTail;
use crate::world::disk::{Disk, IoError};

/// Reads a journal in a folder and writes nothing; the process that owns it may append meanwhile.
#[derive(Debug)]
pub struct RecordedJournal {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    /// Events with a greater number are left out.
    until: u64,
}

impl RecordedJournal {
    /// A reader of the journal in `dir`, up to the event `until`.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>, dir: PathBuf, until: u64) -> Self {
        Self { disk, dir, until }
    }
}

impl EventHistory for RecordedJournal {
    fn lines_after(&self, after: u64, show: &mut dyn FnMut(u64, &[u8]) -> bool) -> Result<(), IoError> {
        let mut tail = JournalTail::new(Arc::clone(&self.disk), self.dir.clone(), after);
        tail.read(|line| {
            if line.seq > self.until {
                return ControlFlow::Break(());
            }
            match for_readers(line.bytes) {
                Some(bytes) if !show(line.seq, &bytes) => ControlFlow::Break(()),
                // A damaged line is skipped.
                Some(_) | None => ControlFlow::Continue(()),
            }
        })?;
        Ok(())
    }

    fn count(&self) -> Result<u64, IoError> {
        let mut count = 0;
        self.lines_after(0, &mut |_, _| {
            count += 1;
            true
        })?;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::super::contract::entries;
    use super::super::{EventJournal, FileJournal, JournalLimits};
    use super::*;
    use crate::world::disk::RealDisk;

    #[test]
    fn it_shows_what_another_process_appends_up_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("events");
        let recorded = |until| RecordedJournal::new(Arc::new(RealDisk), dir.clone(), until);
        let shown = |journal: &RecordedJournal, after| {
            let mut seqs = Vec::new();
            let show = &mut |seq, _: &[u8]| {
                seqs.push(seq);
                true
            };
            journal.lines_after(after, show).unwrap();
            seqs
        };
        let all = recorded(u64::MAX);
        assert_eq!((shown(&all, 0), all.count().unwrap()), (vec![], 0));
        let limits = JournalLimits {
            segment_bytes: 100,
            retained_bytes: u64::MAX,
        };
        let journal = FileJournal::open(Arc::new(RealDisk), &dir, limits).unwrap();
        journal.append(&entries(1..=5)).unwrap();
        assert_eq!((shown(&all, 2), all.count().unwrap()), (vec![3, 4, 5], 5));
        assert_eq!(shown(&recorded(4), 1), [2, 3, 4]);
        journal.append(&entries([6])).unwrap();
        assert_eq!(shown(&all, 5), [6]);
        assert_eq!(recorded(4).count().unwrap(), 4);
    }
}
