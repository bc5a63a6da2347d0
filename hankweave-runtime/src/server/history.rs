//! Reading what has happened, in parts.

use std::collections::VecDeque;

use crate::journal::{EventJournal, JournalError, LinePage, PageLimit};

/// How many events the answer to a handshake holds at most ("WebSocket protocol", "Handshake").
const NEWEST: usize = 50;

/// How many events one message holds at most ("WebSocket protocol", "History").
pub(super) const BATCH: usize = 256;

/// How much is read at a time: several messages, which is fewer events than may wait for a client, and not more than one may hold ("reliability
/// and security", rule D6, less the room for what stands around it).
const PART: PageLimit = PageLimit {
    entries: 3 * BATCH,
    bytes: (1 << 20) - 4_096,
};

/// The newest events up to number `until`, oldest first. Waits for the disk.
pub(super) fn newest(journal: &dyn EventJournal, until: u64) -> Result<Vec<String>, JournalError> {
    // Numbers are left out after a crash, so a part of the history may hold fewer events than numbers.
    let mut span = NEWEST as u64;
    loop {
        let after = until.saturating_sub(span);
        let lines = last_between(journal, after, until)?;
        if lines.len() == NEWEST || after == 0 {
            return Ok(lines.into());
        }
        span = span.saturating_mul(8);
    }
}

fn last_between(
    journal: &dyn EventJournal,
    mut after: u64,
    until: u64,
) -> Result<VecDeque<String>, JournalError> {
    let mut newest = VecDeque::with_capacity(NEWEST);
    loop {
        let page = part(journal, after, until)?;
        for (_, line) in page.lines() {
            if newest.len() == NEWEST {
                newest.pop_front();
            }
            newest.push_back(line.to_owned());
        }
        match page.last_seq() {
            Some(last) if page.more => after = last,
            _ => return Ok(newest),
        }
    }
}

/// The next part of the history behind `after`, and nothing behind `until`. Waits for the disk.
pub(super) fn part(journal: &dyn EventJournal, after: u64, until: u64) -> Result<LinePage, JournalError> {
    let mut page = journal.lines_after(after, PART)?;
    page.end_with(until);
    Ok(page)
}

/// The first part, and how many events there are.
pub(super) fn beginning(
    journal: &dyn EventJournal,
    until: u64,
    with_events: bool,
) -> Result<(Vec<String>, u64), JournalError> {
    let events = match with_events {
        true => newest(journal, until)?,
        false => Vec::new(),
    };
    Ok((events, journal.count()?))
}

#[cfg(test)]
mod tests {
    use hankweave_core::id::EventId;
    use hankweave_core::time::Timestamp;
    use hankweave_core::wire::{Event, JournalEntry};

    use super::*;
    use crate::journal::{Batch, MemoryJournal};

    fn journal(seqs: impl IntoIterator<Item = u64>) -> MemoryJournal {
        let journal = MemoryJournal::default();
        let entry = |seq| JournalEntry {
            seq,
            id: EventId::new("e").unwrap(),
            timestamp: Timestamp::UNIX_EPOCH,
            event: Event::Info {
                message: String::new(),
            },
        };
        let batch = Batch::new(seqs.into_iter().map(entry).collect());
        journal.append(&batch).unwrap();
        journal
    }

    fn newest_seqs(journal: &MemoryJournal, until: u64) -> Vec<u64> {
        let lines = newest(journal, until).unwrap();
        let seq = |line: &String| serde_json::from_str::<JournalEntry>(line).unwrap().seq;
        lines.iter().map(seq).collect()
    }

    #[test]
    fn the_newest_fifty_are_found_whatever_numbers_were_left_out() {
        assert!(newest_seqs(&journal([]), 0).is_empty());
        assert_eq!(newest_seqs(&journal(1..=3), 2), [1, 2]);
        assert_eq!(
            newest_seqs(&journal(1..=2_000), 1_500),
            (1_451..=1_500).collect::<Vec<_>>()
        );
        let with_gap = journal((1..=40).chain(2_000..=2_020));
        let expected: Vec<u64> = (12..=40).chain(2_000..=2_020).collect();
        assert_eq!(newest_seqs(&with_gap, 2_020), expected);
    }

    #[test]
    fn a_part_ends_where_it_should() {
        let journal = journal(1..=1_000);
        let measured = |after, until| {
            let page = part(&journal, after, until).unwrap();
            (page.lines().len(), page.last_seq(), page.more)
        };
        assert_eq!(measured(0, 1_000), (768, Some(768), true));
        assert_eq!(measured(0, 768), (768, Some(768), false));
        assert_eq!(measured(900, 950), (50, Some(950), false));
        assert_eq!(measured(1_000, 1_000), (0, None, false));
    }
}
