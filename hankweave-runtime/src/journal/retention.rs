//! Removes the oldest output of agents when the journal is too large (D6).
//!
//! Output is removed from one file after the other, oldest file first; all other events are kept. The kept part of a file has another name,
//! `000001-kept.jsonl`, so that a reader of the old file notices the removal, and no file is rewritten twice.

use std::io;

use super::lines::kind_of;
use super::segment::Segment;
use crate::world::disk::{self, Disk};

/// Types of events that are removed: output of agents and rigs, reports of progress and of changed files, and figures that the state events have as well.
const FORGOTTEN: [&str; 9] = [
    "assistant.action",
    "tool.result",
    "token.usage",
    "output.truncated",
    "output.unparsed",
    "progress",
    "rig.output",
    "file.updated",
    "filetree.updated",
];

/// Returns the oldest file that still has its output, if all files together have more than `limit` bytes. The last file
/// is never returned: it is being written.
///
/// # Errors
///
/// Returns the error of the disk.
pub(super) fn oldest_beyond(
    disk: &dyn Disk,
    segments: &[Segment],
    limit: u64,
) -> io::Result<Option<Segment>> {
    let mut total = 0;
    for segment in segments {
        total += disk.metadata(&segment.path)?.length;
    }
    let Some((_, old)) = segments.split_last().filter(|_| total > limit) else {
        return Ok(None);
    };
    Ok(old.iter().find(|segment| !segment.kept).cloned())
}

/// Writes the events of `whole` that are not removed into the file `kept`.
///
/// # Errors
///
/// Returns the error of the disk; the file `kept` does not exist then.
pub(super) fn write_kept_part(disk: &dyn Disk, whole: &Segment, kept: &Segment) -> io::Result<()> {
    let mut content = Vec::new();
    let mut lines = whole.lines(disk, 0);
    while let Some(line) = lines.next_line()? {
        // A damaged line, which has no type, is dropped as well: every reader skips it.
        let bytes = line.bytes;
        if kind_of(bytes).is_some_and(|kind| !FORGOTTEN.contains(&&*kind)) {
            content.extend_from_slice(bytes);
            content.push(b'\n');
        }
    }
    disk::replace(disk, &kept.path, &content)
}

#[cfg(test)]
mod tests {
    use std::ops::RangeInclusive;
    use std::path::Path;
    use std::sync::Arc;

    use hankweave_core::id::{CodonId, EventId};
    use hankweave_core::time::Timestamp;
    use hankweave_core::wire::{AgentAction, Event, JournalEntry};

    use super::super::contract::seqs;
    use super::super::{Batch, EventHistory, EventJournal, FileJournal, JournalLimits, PageLimit};
    use super::*;
    use crate::world::disk::{Fault, FaultyDisk, IoError, RealDisk};

    const EVERYTHING: PageLimit = PageLimit {
        entries: usize::MAX,
        bytes: usize::MAX,
    };

    /// Returns output of the agent if the number is even, and a message of the server if it is odd.
    fn entry(seq: u64) -> JournalEntry {
        let event = match seq % 2 {
            0 => Event::AssistantAction {
                codon_id: CodonId::new("a").unwrap(),
                action: AgentAction::Message,
                content: "x".repeat(100),
                tool_name: None,
                tool_input: None,
                tool_use_id: None,
                parent_tool_use_id: None,
            },
            _ => Event::Info {
                message: format!("number {seq}"),
            },
        };
        JournalEntry {
            seq,
            id: EventId::new(format!("event-{seq}")).unwrap(),
            timestamp: Timestamp::UNIX_EPOCH,
            event,
        }
    }

    const LIMITS: JournalLimits = JournalLimits {
        segment_bytes: 1_000,
        retained_bytes: 5_000,
    };

    fn write(disk: &Arc<dyn Disk>, dir: &Path, seqs: RangeInclusive<u64>) -> Option<FileJournal> {
        let journal = FileJournal::open(Arc::clone(disk), dir, LIMITS).ok()?;
        for seq in seqs {
            append(&journal, entry(seq)).ok()?;
        }
        Some(journal)
    }

    /// Appends like the journal writer, but tidies in the foreground.
    fn append(journal: &FileJournal, entry: JournalEntry) -> Result<(), IoError> {
        journal.append(&Batch::new(&[entry]))?;
        if journal.is_untidy() {
            journal.tidy();
        }
        Ok(())
    }

    /// Opens the journal and writes nothing.
    #[expect(clippy::reversed_empty_ranges, reason = "it is meant to be empty")]
    const NOTHING: RangeInclusive<u64> = 1..=0;

    fn bytes(dir: &Path) -> u64 {
        let names = RealDisk.list_dir(dir).unwrap();
        names
            .iter()
            .map(|name| RealDisk.metadata(&dir.join(name)).unwrap().length)
            .sum()
    }

    // covers: D6
    #[test]
    fn the_oldest_output_goes_and_everything_else_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("events");
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let journal = write(&disk, &dir, 1..=60).unwrap();
        let found = seqs(&journal.read_after(0, EVERYTHING).unwrap());
        let told: Vec<u64> = found.iter().copied().filter(|seq| seq % 2 == 1).collect();
        assert_eq!(told, (0..30).map(|n| n * 2 + 1).collect::<Vec<u64>>());
        let output: Vec<u64> = found.iter().copied().filter(|seq| seq % 2 == 0).collect();
        let first = *output.first().expect("the newest output is kept");
        assert!(first > 2, "{found:?}");
        assert_eq!(output, (first..=60).step_by(2).collect::<Vec<u64>>());
        // One more file is written until the next one is begun.
        assert!(bytes(&dir) <= LIMITS.retained_bytes + 2 * LIMITS.segment_bytes);
        drop(journal);
        // Another life finds equal entries, from every position on.
        let journal = write(&disk, &dir, NOTHING).unwrap();
        for after in [0, 5, 6, 30, 59, 60] {
            let mut expected = found.clone();
            expected.retain(|seq| *seq > after);
            let page = journal.read_after(after, EVERYTHING).unwrap();
            assert_eq!((seqs(&page), page.corrupt_lines), (expected, 0), "after {after}");
        }
    }

    // covers: D6
    #[test]
    fn a_file_without_output_is_kept_whole() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("events");
        let journal = FileJournal::open(Arc::new(RealDisk), &dir, LIMITS).unwrap();
        for number in (1..=120).step_by(2) {
            append(&journal, entry(number)).unwrap();
        }
        let names = RealDisk.list_dir(&dir).unwrap();
        assert!(names.iter().any(|name| name == "000001-kept.jsonl"), "{names:?}");
        assert!(!names.iter().any(|name| name == "000001.jsonl"), "{names:?}");
        let found = seqs(&journal.read_after(0, EVERYTHING).unwrap());
        assert_eq!(found, (1..=120).step_by(2).collect::<Vec<u64>>());
        assert_eq!(journal.count().unwrap(), 60);
    }

    // covers: D6, P7
    #[test]
    fn a_crash_while_forgetting_loses_nothing_that_is_kept_and_leaves_no_remains() {
        for n in 0.. {
            let folder = tempfile::tempdir().unwrap();
            let dir = folder.path().join("events");
            let real: Arc<dyn Disk> = Arc::new(RealDisk);
            drop(write(&real, &dir, 1..=30).unwrap());
            let faulty = FaultyDisk::new(Arc::new(RealDisk), Fault::CrashAt(n));
            let disk: Arc<dyn Disk> = Arc::new(faulty.clone());
            drop(write(&disk, &dir, 31..=50));
            let journal = write(&real, &dir, NOTHING).unwrap();
            let last = journal.last_seq();
            let page = journal.read_after(0, EVERYTHING).unwrap();
            assert!(page.corrupt_lines <= 1, "crash at {n}");
            let mut told = seqs(&page);
            // A torn line counts for the next number and cannot be read.
            let readable = *told.last().unwrap();
            told.retain(|seq| seq % 2 == 1);
            let expected: Vec<u64> = (1..=readable).step_by(2).collect();
            assert_eq!(told, expected, "crash at {n}");
            assert!(
                readable >= 30 && last - readable <= page.corrupt_lines,
                "crash at {n}"
            );
            let names = RealDisk.list_dir(&dir).unwrap();
            assert!(
                names.iter().all(|name| !name.to_string_lossy().ends_with(".tmp")),
                "crash at {n}: {names:?}"
            );
            if !faulty.crashed() {
                assert_eq!(last, 50);
                assert!(names.iter().any(|name| name == "000001-kept.jsonl"), "{names:?}");
                return;
            }
        }
    }
}
