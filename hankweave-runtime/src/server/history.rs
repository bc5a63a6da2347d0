//! Reading what has happened, in parts that go to a client as they are.

use std::collections::VecDeque;

use super::frames::{Begun, Frames};
use super::reply::{BATCH_END, Voice};
use crate::journal::{EventJournal, JournalError};

/// How many events the answer to a handshake holds at most (WIRE-3).
const NEWEST: usize = 50;

/// How many events one message holds at most (WIRE-5).
const PAGE: usize = 256;

/// How long a message with several events may become (D6).
const MESSAGE_BYTES: usize = 1 << 20;

/// How much is read at a time: about what the system takes at once for a client.
const PART_BYTES: usize = 512 << 10;

/// A part of the history on its way to a client.
#[derive(Debug, Default)]
pub(super) struct Part {
    pub(super) frames: Frames,
    /// The last event in it.
    pub(super) last_seq: Option<u64>,
    /// Whether there is more behind it.
    pub(super) more: bool,
}

impl Part {
    fn new(memory: Frames) -> Self {
        Self {
            frames: memory.cleared(),
            ..Self::default()
        }
    }

    fn is_full(&self) -> bool {
        self.frames.bytes().len() >= PART_BYTES
    }
}

/// Events behind `after`, each a message of its own. Waits for the disk.
pub(super) fn events(journal: &dyn EventJournal, after: u64, memory: Frames) -> Result<Part, JournalError> {
    let mut part = Part::new(memory);
    journal.lines_after(after, &mut |seq, line| {
        part.more = part.is_full();
        if !part.more {
            part.frames.push(line);
            part.last_seq = Some(seq);
        }
        !part.more
    })?;
    Ok(part)
}

/// Events behind `after`, and none behind `until`, in `history.batch` messages: at least one, which may be empty. Waits for the disk.
pub(super) fn batches(
    journal: &dyn EventJournal,
    (after, until): (u64, u64),
    (voice, command_id): (&Voice, &str),
    memory: Frames,
) -> Result<Part, JournalError> {
    let mut part = Part::new(memory);
    let begin = |frames: &mut Frames| Page::begin(frames, voice.batch_begin(command_id).as_bytes());
    let mut page = begin(&mut part.frames);
    journal.lines_after(after, &mut |seq, line| {
        if seq > until {
            return false;
        }
        if page.is_full(&part.frames, line) {
            page.end(&mut part.frames, true);
            part.more = part.is_full();
            if part.more {
                return false;
            }
            page = begin(&mut part.frames);
        }
        page.add(&mut part.frames, line);
        part.last_seq = Some(seq);
        true
    })?;
    if !part.more {
        page.end(&mut part.frames, false);
    }
    Ok(part)
}

/// A `history.batch` that is being written.
struct Page {
    begun: Begun,
    events: usize,
}

impl Page {
    fn begin(frames: &mut Frames, text: &[u8]) -> Self {
        let begun = frames.begin();
        frames.add(text);
        Self { begun, events: 0 }
    }

    /// Whether the message cannot take this line any more; it takes one, however long.
    fn is_full(&self, frames: &Frames, line: &[u8]) -> bool {
        let length = frames.length_since(self.begun) + 1 + line.len() + BATCH_END.len();
        self.events == PAGE || (self.events > 0 && length > MESSAGE_BYTES)
    }

    fn add(&mut self, frames: &mut Frames, line: &[u8]) {
        if self.events > 0 {
            frames.add(b",");
        }
        frames.add(line);
        self.events += 1;
    }

    fn end(&self, frames: &mut Frames, has_more: bool) {
        frames.add(BATCH_END.as_bytes());
        frames.add(if has_more { b"true}}" } else { b"false}}" });
        frames.end(self.begun);
    }
}

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
    after: u64,
    until: u64,
) -> Result<VecDeque<String>, JournalError> {
    let mut newest = VecDeque::with_capacity(NEWEST);
    journal.lines_after(after, &mut |seq, line| {
        let wanted = seq <= until;
        if wanted {
            if newest.len() == NEWEST {
                newest.pop_front();
            }
            newest.push_back(String::from_utf8_lossy(line).into_owned());
        }
        wanted
    })?;
    Ok(newest)
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
        let voice = Voice::new(&World::with_environment([("", ""); 0].into_iter().collect()));
        let measured = |after, until| {
            let part = batches(&journal, (after, until), (&voice, "c"), Frames::default()).unwrap();
            (part.last_seq, part.more)
        };
        let (Some(first), true) = measured(0, 10_000) else {
            panic!("10,000 events are more than one part");
        };
        assert_eq!(first % PAGE as u64, 0);
        assert_eq!(measured(0, first), (Some(first), false));
        assert_eq!(measured(900, 950), (Some(950), false));
        assert_eq!(measured(10_000, 10_000), (None, false));
        assert_eq!(measured(0, 0), (None, false));
        let part = events(&journal, 0, Frames::default()).unwrap();
        assert!(part.more && part.frames.bytes().len() < PART_BYTES + 1_000);
        let rest = events(&journal, 9_990, Frames::default()).unwrap();
        assert_eq!((rest.last_seq, rest.more), (Some(10_000), false));
    }
}
