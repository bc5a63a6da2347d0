//! The content of one file.

use crate::rng::Rng;

/// Bytes that a disk writes as a whole.
const SECTOR: usize = 512;

/// Bytes as a program reads them, bytes that survive everything, and the way from these to those.
#[derive(Debug, Clone, Default)]
pub(super) struct File {
    content: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<Pending>,
}

#[derive(Debug, Clone)]
struct Pending {
    change: Change,
    /// A sync that should have made it durable has failed.
    lost: bool,
}

#[derive(Debug, Clone)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Cut(usize),
}

impl File {
    pub(super) fn content(&self) -> &[u8] {
        &self.content
    }

    pub(super) fn append(&mut self, bytes: &[u8]) {
        self.write_at(self.content.len(), bytes);
    }

    /// Overwrites the content from `offset` on, and extends it if necessary.
    pub(super) fn write_at(&mut self, offset: usize, bytes: &[u8]) {
        self.change(Change::Write {
            offset,
            bytes: bytes.to_vec(),
        });
    }

    pub(super) fn cut(&mut self, length: usize) {
        self.change(Change::Cut(length));
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.content);
        self.pending.push(Pending { change, lost: false });
    }

    /// Makes durable what can still be made durable.
    pub(super) fn sync(&mut self) {
        for pending in self.pending.iter().filter(|pending| !pending.lost) {
            pending.change.apply(&mut self.durable);
        }
        self.pending.retain(|pending| pending.lost);
    }

    /// Fails a sync: the system takes the pages for clean nevertheless. Changes of the length are not affected.
    pub(super) fn fail_sync(&mut self) {
        for pending in &mut self.pending {
            pending.lost |= matches!(pending.change, Change::Write { .. });
        }
    }

    /// Whether a failed sync lost something.
    pub(super) fn has_lost(&self) -> bool {
        self.pending.iter().any(|pending| pending.lost)
    }

    /// The system needs memory and drops clean pages: what is read from now on is what the disk has, at the length that the file had.
    pub(super) fn reclaim(&mut self) {
        let length = self.content.len();
        self.pending.retain(|pending| !pending.lost);
        self.content.clone_from(&self.durable);
        for pending in &self.pending {
            pending.change.apply(&mut self.content);
        }
        self.content.resize(length, 0);
    }

    /// The file without what was not synced.
    pub(super) fn durable(&self) -> Self {
        Self {
            content: self.durable.clone(),
            durable: self.durable.clone(),
            pending: Vec::new(),
        }
    }

    /// The power goes.
    pub(super) fn lose(&mut self, rng: &mut Rng) {
        let pending = std::mem::take(&mut self.pending);
        let pending = pending.into_iter().filter(|pending| !pending.lost);
        let changes: Vec<Change> = pending.map(|pending| pending.change).collect();
        for (change, fate) in changes.iter().zip(fates(changes.len(), rng)) {
            match fate {
                Fate::Kept => change.apply(&mut self.durable),
                Fate::Torn => change.tear(&mut self.durable, rng),
                Fate::Gone => {}
            }
        }
        self.content.clone_from(&self.durable);
    }
}

impl Change {
    fn apply(&self, to: &mut Vec<u8>) {
        match self {
            Self::Cut(length) => to.resize(*length, 0),
            Self::Write { offset, bytes } => overwrite(to, *offset, bytes),
        }
    }

    /// Some sectors of a write arrive; the others are missing, or, where the file had none yet, there without their content.
    fn tear(&self, to: &mut Vec<u8>, rng: &mut Rng) {
        let Self::Write { offset, bytes } = self else {
            return;
        };
        let end = offset + bytes.len();
        let first = offset / SECTOR + 1;
        let last = end / SECTOR;
        let border = if first > last {
            *offset
        } else {
            (first + rng.up_to(last - first)) * SECTOR
        };
        overwrite(to, *offset, &bytes[..border - offset]);
        if rng.one_in(2) && to.len() < end {
            to.resize(end, 0);
        }
    }
}

fn overwrite(to: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    if to.len() < offset {
        to.resize(offset, 0);
    }
    let inside = bytes.len().min(to.len() - offset);
    to[offset..offset + inside].copy_from_slice(&bytes[..inside]);
    to.extend_from_slice(&bytes[inside..]);
}

/// Fate of an unsynced change when the power goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Kept,
    /// A part of it arrives; only writes can be torn.
    Torn,
    Gone,
}

/// The fates of `count` changes in the order in which they were made.
pub(super) fn fates(count: usize, rng: &mut Rng) -> Vec<Fate> {
    match rng.up_to(3) {
        0 => vec![Fate::Gone; count],
        1 => vec![Fate::Kept; count],
        2 => {
            let kept = rng.up_to(count);
            let mut fates = vec![Fate::Kept; kept];
            fates.resize(count, Fate::Gone);
            if let Some(next) = fates.get_mut(kept) {
                *next = Fate::Torn;
            }
            fates
        }
        _ => (0..count)
            .map(|_| *rng.pick(&[Fate::Kept, Fate::Torn, Fate::Gone]))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(durable: &[u8], unsynced: &[u8]) -> File {
        let mut file = File::default();
        file.append(durable);
        file.sync();
        file.append(unsynced);
        file
    }

    fn after_power_loss(file: &File) -> Vec<Vec<u8>> {
        (0..200)
            .map(|seed| {
                let mut file = file.clone();
                file.lose(&mut Rng::new(seed));
                file.content().to_vec()
            })
            .collect()
    }

    #[test]
    fn what_was_synced_survives_and_what_was_not_may_be_lost_or_stay() {
        let seen = after_power_loss(&file(b"durable ", b"unsynced"));
        assert!(seen.iter().all(|content| content.starts_with(b"durable ")));
        assert!(seen.contains(&b"durable ".to_vec()));
        assert!(seen.contains(&b"durable unsynced".to_vec()));
        assert!(seen.contains(&b"durable \0\0\0\0\0\0\0\0".to_vec()));
    }

    #[test]
    fn a_write_is_torn_at_borders_of_sectors_only() {
        let seen = after_power_loss(&file(&[1; 500], &[2; 1_000]));
        let lengths: Vec<usize> = seen
            .iter()
            .map(|content| content.iter().filter(|byte| **byte == 2).count())
            .collect();
        for written in [0, 12, 524, 1_000] {
            assert!(lengths.contains(&written), "{written}");
        }
        assert!(
            lengths
                .iter()
                .all(|written| [0, 12, 524, 1_000].contains(written))
        );
    }

    #[test]
    fn a_later_write_may_arrive_without_an_earlier_one() {
        let mut file = file(b"", b"first ");
        file.append(b"second");
        let hole = b"\0\0\0\0\0\0second".to_vec();
        assert!(after_power_loss(&file).contains(&hole));
    }

    #[test]
    fn what_a_failed_sync_lost_no_later_sync_brings_back() {
        let mut file = file(b"one ", b"two ");
        file.fail_sync();
        file.append(b"three");
        file.sync();
        assert_eq!(file.content(), b"one two three");
        for content in after_power_loss(&file) {
            assert_eq!(content, b"one \0\0\0\0three");
        }
    }

    #[test]
    fn what_is_written_again_after_a_failed_sync_becomes_durable() {
        let mut file = file(b"one ", b"two ");
        file.fail_sync();
        file.write_at(4, b"two ");
        file.sync();
        for content in after_power_loss(&file) {
            assert_eq!(content, b"one two ");
        }
    }

    #[test]
    fn what_a_failed_sync_lost_can_be_read_until_its_pages_are_dropped() {
        let mut file = file(b"one ", b"two ");
        file.fail_sync();
        file.append(b"three");
        assert_eq!(file.content(), b"one two three");
        file.reclaim();
        assert_eq!(file.content(), b"one \0\0\0\0three");
    }

    #[test]
    fn a_torn_write_over_durable_bytes_leaves_old_ones_or_new_ones() {
        let mut file = file(&[1; 1_500], b"");
        file.write_at(0, &[2; 1_500]);
        for content in after_power_loss(&file) {
            assert!(content.iter().all(|byte| [1, 2].contains(byte)));
        }
    }
}
