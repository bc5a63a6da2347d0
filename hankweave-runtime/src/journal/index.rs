//! Where lines stand by their numbers, so that a part of the history begins where the part before it ended (D6).
//!
//! The index is made from what is written and read, is kept in memory only, and is sparse: what it does not know is found by halving. So it
//! costs nothing on the way of an event, and there is nothing on the disk that could disagree with the lines.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// Two places in a file are at least so many bytes apart.
const STRIDE: u64 = 64 * 1024;

/// Those who read a history at the same time, with room to spare.
const READERS: usize = 64;

/// Where lines stand.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// For each file: behind which number the line at which offset comes.
    places: BTreeMap<u32, BTreeMap<u64, u64>>,
    /// The same where somebody has stopped who may read on, the last ones to stop: file, number and offset.
    stops: VecDeque<(u32, u64, u64)>,
}

impl Index {
    /// What comes behind number `seq` in file `number` begins at `offset`, where somebody has stopped to read.
    pub(super) fn stop(&mut self, number: u32, seq: u64, offset: u64) {
        self.note(number, seq, offset);
        self.stops.retain(|stop| (stop.0, stop.1) != (number, seq));
        if self.stops.len() == READERS {
            self.stops.pop_front();
        }
        self.stops.push_back((number, seq, offset));
    }

    /// What comes behind number `seq` in file `number` begins at `offset`.
    pub(super) fn note(&mut self, number: u32, seq: u64, offset: u64) {
        let known = self.range(number, seq);
        if offset >= known.start + STRIDE && known.end.saturating_sub(offset) >= STRIDE {
            self.places.entry(number).or_default().insert(seq, offset);
        }
    }

    /// Where in file `number` the first line behind number `seq` is: the range is as small as is known.
    pub(super) fn range(&self, number: u32, seq: u64) -> Range<u64> {
        let stop = self.stops.iter().find(|stop| (stop.0, stop.1) == (number, seq));
        if let Some((_, _, offset)) = stop {
            return *offset..*offset;
        }
        let places = self.places.get(&number);
        let before = places.and_then(|places| places.range(..=seq).next_back());
        let behind = places.and_then(|places| places.range(seq + 1..).next());
        before.map_or(0, |(_, offset)| *offset)..behind.map_or(u64::MAX, |(_, offset)| *offset)
    }

    /// File `number` has other lines now.
    pub(super) fn forget(&mut self, number: u32) {
        self.places.remove(&number);
        self.stops.retain(|stop| stop.0 != number);
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

    #[test]
    fn whoever_stops_goes_on_at_the_same_place() {
        let mut index = Index::default();
        index.note(1, 10, STRIDE);
        index.stop(1, 12, STRIDE + 7);
        assert_eq!(index.range(1, 12), STRIDE + 7..STRIDE + 7);
        assert_eq!(index.range(1, 11), STRIDE..u64::MAX);
        assert_eq!(index.range(2, 12), 0..u64::MAX);
        for seq in 0..READERS as u64 {
            index.stop(2, seq, 1);
        }
        assert_eq!(
            index.range(1, 12),
            STRIDE..u64::MAX,
            "too many have stopped since"
        );
        index.forget(2);
        assert_eq!(index.range(2, 1), 0..u64::MAX);
    }
}
