//! Reads the journal for one client, in parts whose messages are sent as they are: the history after an event, the answer to `history.sync`, and the newest
//! events for the answer to a handshake.

use std::collections::VecDeque;

use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::replies::{BATCH_END, Replies};
use crate::journal::EventHistory;
use crate::world::disk::IoError;

/// How many events the answer to a handshake holds at most (WIRE-3).
const NEWEST: usize = 50;

/// How many events one message holds at most (WIRE-5).
const BATCH_EVENTS: usize = 256;

/// How long a message with several events may become (D6).
const MESSAGE_BYTES: usize = 1 << 20;

/// Length of a part in bytes, after which it is full: about as much as the system takes at once for a client.
const PART_BYTES: usize = 512 << 10;

/// A part of the history, as messages to a client.
#[derive(Debug, Default)]
pub(super) struct HistoryChunk {
    pub(super) messages: Vec<Utf8Bytes>,
    bytes: usize,
    /// The last event in the messages; `None` without events.
    pub(super) last_seq: Option<u64>,
    /// Whether more events follow.
    pub(super) more: bool,
}

impl HistoryChunk {
    fn push(&mut self, message: String) {
        self.bytes += message.len();
        self.messages.push(message.into());
    }

    fn is_full(&self) -> bool {
        self.bytes >= PART_BYTES
    }
}

/// Reads events after number `after`, each as a message of its own. Blocks.
pub(super) fn events(journal: &dyn EventHistory, after: u64) -> Result<HistoryChunk, IoError> {
    let mut part = HistoryChunk::default();
    journal.lines_after(after, &mut |seq, line| {
        part.more = part.is_full();
        if !part.more {
            part.push(String::from_utf8_lossy(line).into_owned());
            part.last_seq = Some(seq);
        }
        !part.more
    })?;
    Ok(part)
}

/// Reads events after number `after` and up to number `until`, as `history.batch` messages: at least one, which may be empty. Blocks.
pub(super) fn batches(
    journal: &dyn EventHistory,
    (after, until): (u64, u64),
    (replies, command_id): (&Replies, &str),
) -> Result<HistoryChunk, IoError> {
    let mut part = HistoryChunk::default();
    let new_batch = || BatchMessage {
        text: replies.batch_begin(command_id),
        events: 0,
    };
    let mut batch = new_batch();
    journal.lines_after(after, &mut |seq, line| {
        if seq > until {
            return false;
        }
        if batch.is_full(line) {
            part.push(std::mem::replace(&mut batch, new_batch()).end(true));
            part.more = part.is_full();
            if part.more {
                return false;
            }
        }
        batch.add(line);
        part.last_seq = Some(seq);
        true
    })?;
    if !part.more {
        part.push(batch.end(false));
    }
    Ok(part)
}

/// A `history.batch` that is being written.
struct BatchMessage {
    text: String,
    events: usize,
}

impl BatchMessage {
    /// Whether the message has no room for `line`. A message without lines has room for one of any length.
    fn is_full(&self, line: &[u8]) -> bool {
        let length = self.text.len() + 1 + line.len() + BATCH_END.len();
        self.events == BATCH_EVENTS || (self.events > 0 && length > MESSAGE_BYTES)
    }

    fn add(&mut self, line: &[u8]) {
        if self.events > 0 {
            self.text.push(',');
        }
        self.text.push_str(&String::from_utf8_lossy(line));
        self.events += 1;
    }

    /// Completes the message; `has_more` tells the client that another one follows.
    fn end(self, has_more: bool) -> String {
        self.text + BATCH_END + if has_more { "true}}" } else { "false}}" }
    }
}

/// Returns the newest events up to number `until`, oldest first. Blocks.
pub(super) fn newest(journal: &dyn EventHistory, until: u64) -> Result<Vec<String>, IoError> {
    // A crash leaves out numbers, so a span of numbers may have too few events; then a longer one is read.
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

/// Returns the newest events after number `after` and up to number `until`.
fn last_between(journal: &dyn EventHistory, after: u64, until: u64) -> Result<VecDeque<String>, IoError> {
    let mut newest = VecDeque::with_capacity(NEWEST);
    journal.lines_after(after, &mut |seq, line| {
        let is_within = seq <= until;
        if is_within {
            if newest.len() == NEWEST {
                newest.pop_front();
            }
            newest.push_back(String::from_utf8_lossy(line).into_owned());
        }
        is_within
    })?;
    Ok(newest)
}

/// Reads the journal for the answer to a handshake: the newest events up to number `until` if they are wanted, and the number of all events. Blocks.
pub(super) fn for_handshake(
    journal: &dyn EventHistory,
    until: u64,
    with_events: bool,
) -> Result<(Vec<String>, u64), IoError> {
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
    use crate::journal::{Batch, EventJournal, MemoryJournal};
    use crate::world::World;

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
        let batch = Batch::new(&seqs.into_iter().map(entry).collect::<Vec<_>>());
        journal.append(&batch).unwrap();
        journal
    }

    fn newest_seqs(journal: &MemoryJournal, until: u64) -> Vec<u64> {
        let lines = newest(journal, until).unwrap();
        let seq = |line: &String| serde_json::from_str::<JournalEntry>(line).unwrap().seq;
        lines.iter().map(seq).collect()
    }

    // covers: WIRE-3
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

    // covers: WIRE-5
    #[test]
    fn a_part_ends_where_it_should() {
        let journal = journal(1..=10_000);
        let replies = Replies::new(&World::with_environment([("", ""); 0].into_iter().collect()));
        let measured = |after, until| {
            let part = batches(&journal, (after, until), (&replies, "c")).unwrap();
            (part.last_seq, part.more)
        };
        let (Some(first), true) = measured(0, 10_000) else {
            panic!("10,000 events are more than one part");
        };
        assert_eq!(first % BATCH_EVENTS as u64, 0);
        assert_eq!(measured(0, first), (Some(first), false));
        assert_eq!(measured(900, 950), (Some(950), false));
        assert_eq!(measured(10_000, 10_000), (None, false));
        assert_eq!(measured(0, 0), (None, false));
        let part = events(&journal, 0).unwrap();
        assert!(part.more && part.bytes < PART_BYTES + 1_000);
        let rest = events(&journal, 9_990).unwrap();
        assert_eq!((rest.last_seq, rest.more), (Some(10_000), false));
    }
}
