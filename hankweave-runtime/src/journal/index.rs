//! Where lines stand by their numbers, so that a part of the history begins where the part before it ended ("reliability and security", rule D6).
//!
//! The index is made from what is written and read, is kept in memory only, and is sparse: what it does not know is found by halving. So it
//! costs nothing on the way of an event, and there is nothing on the disk that could disagree with the lines.

use std::collections::BTreeMap;
use std::ops::Range;

/// Two places in a file are at least so many bytes apart.
const STRIDE: u64 = 64 * 1024;

/// For each file: behind which number the line at which offset comes.
#[derive(Debug, Default)]
pub(super) struct Index(BTreeMap<u32, BTreeMap<u64, u64>>);

impl Index {
    /// What comes behind number `seq` in file `number` begins at `offset`.
    pub(super) fn note(&mut self, number: u32, seq: u64, offset: u64) {
        let known = self.range(number, seq);
        if offset >= known.start + STRIDE && known.end.saturating_sub(offset) >= STRIDE {
            self.0.entry(number).or_default().insert(seq, offset);
        }
    }

    /// Where in file `number` the first line behind number `seq` is: the range is as small as is known.
    pub(super) fn range(&self, number: u32, seq: u64) -> Range<u64> {
        let places = self.0.get(&number);
        let before = places.and_then(|places| places.range(..=seq).next_back());
        let behind = places.and_then(|places| places.range(seq + 1..).next());
        before.map_or(0, |(_, offset)| *offset)..behind.map_or(u64::MAX, |(_, offset)| *offset)
    }

    /// File `number` has other lines now.
    pub(super) fn forget(&mut self, number: u32) {
        self.0.remove(&number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_and_are_never_close_together() {
        let mut index = Index::default();
        assert_eq!(index.range(1, 7), 0..u64::MAX);
        for (seq, offset) in [
            (9, STRIDE - 1),
            (10, STRIDE),
            (11, STRIDE + 1),
            (30, 3 * STRIDE),
            (20, 2 * STRIDE + 1),
        ] {
            index.note(1, seq, offset);
        }
        assert_eq!(index.range(1, 9), 0..STRIDE);
        for seq in [10, 11, 20, 29] {
            assert_eq!(index.range(1, seq), STRIDE..3 * STRIDE, "{seq}");
        }
        assert_eq!(index.range(1, 30), 3 * STRIDE..u64::MAX);
        assert_eq!(index.range(2, 30), 0..u64::MAX);
        index.forget(1);
        assert_eq!(index.range(1, 30), 0..u64::MAX);
    }
}
