//! Reads a journal that another process may be writing to: first the existing lines, then with each call the new ones.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::file::find_segments;
use super::lines::{kind_of, seq_of};
use super::segment::Segment;
use crate::world::disk::{Disk, IoError};

/// How often one call of `read` starts again because the writer has replaced a file meanwhile, which it does once in 64 MiB. After
/// that the next call continues.
const MOST_ATTEMPTS: usize = 10;

/// Reads the lines of a journal from some number on, and with each further call the new lines. It
/// writes nothing.
#[derive(Debug)]
pub struct JournalTail {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    /// Lines up to this number were returned or are not wanted.
    after: u64,
    /// The file that is being read, and the offset of its next line; `None` if they have to be found by `after`.
    position: Option<(Segment, u64)>,
    /// Whether the last line came from a file from which output was removed.
    last_file_was_kept_part: bool,
}

/// A line of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TailLine<'a> {
    /// The number of the event.
    pub seq: u64,
    /// The type of the event.
    pub kind: &'a str,
    /// The line without its line break: one JSON object.
    pub bytes: &'a [u8],
    /// Number of events directly before it that were removed because the journal was too large (D6).
    pub removed: u64,
}

/// Entries that were skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SkippedInput {
    /// Lines that are damaged.
    pub corrupt_lines: u64,
    /// Bytes after the last line break: a line that is being written, or one that was never finished.
    pub unfinished_bytes: u64,
    /// Events that were removed because the journal was too large.
    pub removed: u64,
}

impl JournalTail {
    /// A reader of the journal in `dir`, which need not exist yet, from the first number greater than `after`
    /// on.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>, dir: PathBuf, after: u64) -> Self {
        Self {
            disk,
            dir,
            after,
            position: None,
            last_file_was_kept_part: false,
        }
    }

    /// Passes all new lines to `each`, oldest first, until `each` breaks off. Returns what was skipped.
    ///
    /// # Errors
    ///
    /// [`IoError`] when the disk refuses.
    pub fn read(
        &mut self,
        mut each: impl FnMut(TailLine<'_>) -> ControlFlow<()>,
    ) -> Result<SkippedInput, IoError> {
        let mut skipped = SkippedInput::default();
        for _ in 0..MOST_ATTEMPTS {
            let read = match self.disk.metadata_followed(&self.dir) {
                Ok(_) => self.read_segments(&mut each, &mut skipped),
                // The journal does not exist yet.
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                Err(error) => Err(error),
            };
            match read {
                Ok(()) => break,
                // The file was replaced by its kept part: the position is found again by the number of the last line.
                Err(error) if error.kind() == io::ErrorKind::NotFound => self.position = None,
                Err(error) => return Err(IoError::at("read", &self.dir)(error)),
            }
        }
        Ok(skipped)
    }

    /// Reads from the position to the end of the last file.
    fn read_segments(
        &mut self,
        each: &mut impl FnMut(TailLine<'_>) -> ControlFlow<()>,
        skipped: &mut SkippedInput,
    ) -> io::Result<()> {
        let segments = find_segments(&*self.disk, &self.dir)?;
        let (mut offset, start) = self.find_position(&segments)?;
        for segment in segments.into_iter().skip(start) {
            // Only the first file is read from an offset; the others from their beginning.
            self.position = Some((segment, std::mem::take(&mut offset)));
            if self.read_segment(each, skipped)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Returns the position from which to continue: an offset in a file, and the index of that file in `segments`.
    fn find_position(&self, segments: &[Segment]) -> io::Result<(u64, usize)> {
        if let Some((segment, offset)) = &self.position
            && let Some(index) = segments.iter().position(|found| found.path == segment.path)
            && ends_a_line(&*self.disk, &segment.path, *offset)?
        {
            return Ok((*offset, index));
        }
        let index = segments
            .partition_point(|segment| segment.first_seq <= self.after)
            .saturating_sub(1);
        let offset = match segments.get(index) {
            Some(segment) => segment.offset_before(&*self.disk, self.after)?,
            None => 0,
        };
        Ok((offset, index))
    }

    /// Reads the file of `self.position` to its end, and moves the position after the last line.
    fn read_segment(
        &mut self,
        each: &mut impl FnMut(TailLine<'_>) -> ControlFlow<()>,
        skipped: &mut SkippedInput,
    ) -> io::Result<ControlFlow<()>> {
        let Some((segment, offset)) = &mut self.position else {
            return Ok(ControlFlow::Continue(()));
        };
        let mut lines = segment.lines(&*self.disk, *offset);
        while let Some(line) = lines.next_line()? {
            let bytes = line.bytes;
            let seq = seq_of(bytes);
            let flow = if seq.is_some_and(|seq| seq <= self.after) {
                ControlFlow::Continue(())
            } else if let (Some(seq), Some(kind)) = (seq, kind_of(bytes)) {
                // A gap in the numbers counts as removed events only next to a kept part: a start after a crash skips numbers too.
                let follows_kept_part = std::mem::replace(&mut self.last_file_was_kept_part, segment.kept);
                let removed = match follows_kept_part || segment.kept {
                    true => seq - self.after - 1,
                    false => 0,
                };
                skipped.removed += removed;
                self.after = seq;
                each(TailLine {
                    seq,
                    kind: &kind,
                    bytes,
                    removed,
                })
            } else {
                skipped.corrupt_lines += 1;
                ControlFlow::Continue(())
            };
            *offset = lines.position();
            if flow.is_break() {
                return Ok(flow);
            }
        }
        skipped.unfinished_bytes = lines.unfinished();
        Ok(ControlFlow::Continue(()))
    }
}

/// Whether a line can begin at `offset`. If not, the file was rewritten meanwhile with other lines.
fn ends_a_line(disk: &dyn Disk, path: &Path, offset: u64) -> io::Result<bool> {
    match offset.checked_sub(1) {
        None => Ok(true),
        Some(last) => Ok(disk.read_at(path, last, 1)? == b"\n"),
    }
}

#[cfg(test)]
mod tests {
    use hankweave_core::id::CodonId;
    use hankweave_core::wire::{Event, JournalEntry, RigStream};

    use super::super::contract::{entries, entry};
    use super::super::{Batch, EventJournal, FileJournal, JournalLimits};
    use super::*;
    use crate::world::disk::RealDisk;

    fn open(folder: &tempfile::TempDir, segment_bytes: u64, retained_bytes: u64) -> FileJournal {
        let limits = JournalLimits {
            segment_bytes,
            retained_bytes,
        };
        FileJournal::open(Arc::new(RealDisk), &folder.path().join("events"), limits).unwrap()
    }

    fn tail(folder: &tempfile::TempDir, after: u64) -> JournalTail {
        JournalTail::new(Arc::new(RealDisk), folder.path().join("events"), after)
    }

    /// The numbers that come now, and what was passed over.
    fn read(tail: &mut JournalTail) -> (Vec<u64>, SkippedInput) {
        let mut seqs = Vec::new();
        let passed = tail
            .read(|line| {
                let entry: serde_json::Value = serde_json::from_slice(line.bytes).unwrap();
                assert_eq!(
                    (&entry["seq"], &entry["type"]),
                    (&line.seq.into(), &line.kind.into())
                );
                seqs.push(line.seq);
                ControlFlow::Continue(())
            })
            .unwrap();
        (seqs, passed)
    }

    #[test]
    fn a_journal_that_is_not_there_yet_has_nothing_and_later_everything() {
        let folder = tempfile::tempdir().unwrap();
        let mut tail = tail(&folder, 0);
        assert_eq!(read(&mut tail), (vec![], SkippedInput::default()));
        open(&folder, 100, u64::MAX).append(&entries([1, 2])).unwrap();
        assert_eq!(read(&mut tail).0, [1, 2]);
        assert_eq!(read(&mut tail).0, [0; 0]);
    }

    #[test]
    fn lines_come_once_and_in_order_while_files_are_begun() {
        let folder = tempfile::tempdir().unwrap();
        let journal = open(&folder, 300, u64::MAX);
        let mut tails: Vec<JournalTail> = [0, 7, 40].map(|after| tail(&folder, after)).into();
        let mut found = vec![Vec::new(); 3];
        for seq in 1..=50 {
            journal.append(&entries([seq])).unwrap();
            for (tail, found) in tails
                .iter_mut()
                .zip(&mut found)
                .filter(|_| seq % 3 == 0 || seq == 50)
            {
                found.extend(read(tail).0);
            }
        }
        let expected = [0, 7, 40].map(|after| (after + 1..=50).collect::<Vec<u64>>());
        assert_eq!(found, expected);
    }

    #[test]
    fn reading_breaks_off_where_it_is_told_to_and_goes_on_there() {
        let folder = tempfile::tempdir().unwrap();
        open(&folder, 100, u64::MAX).append(&entries(1..=9)).unwrap();
        let mut tail = tail(&folder, 0);
        let mut last = 0;
        tail.read(|line| {
            last = line.seq;
            match line.seq {
                4 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        })
        .unwrap();
        assert_eq!((last, read(&mut tail).0), (4, vec![5, 6, 7, 8, 9]));
    }

    // covers: P7, F5
    #[test]
    fn a_line_without_its_end_waits_and_is_counted_once_it_is_ended() {
        let folder = tempfile::tempdir().unwrap();
        open(&folder, 1 << 20, u64::MAX).append(&entries([1])).unwrap();
        let path = folder.path().join("events/000001.jsonl");
        let torn = b"{\"seq\":2,\"id";
        RealDisk.open_append(&path).unwrap().append(torn).unwrap();
        let mut tail = tail(&folder, 0);
        let unfinished = SkippedInput {
            unfinished_bytes: torn.len() as u64,
            ..SkippedInput::default()
        };
        assert_eq!(read(&mut tail), (vec![1], unfinished));
        open(&folder, 1 << 20, u64::MAX).append(&entries([3])).unwrap();
        let (seqs, passed) = read(&mut tail);
        assert_eq!(
            (seqs, passed.corrupt_lines, passed.unfinished_bytes),
            (vec![3], 1, 0)
        );
    }

    // covers: D6
    #[test]
    fn a_reader_finds_its_place_again_when_old_files_lose_their_output() {
        let folder = tempfile::tempdir().unwrap();
        let journal = open(&folder, 400, 1_000);
        let mut tail = tail(&folder, 0);
        let mut found = Vec::new();
        for seq in 1..=60 {
            journal.append(&entries([seq])).unwrap();
            journal.tidy();
            if seq % 25 == 0 {
                found.extend(read(&mut tail).0);
            }
        }
        found.extend(read(&mut tail).0);
        // Infos are kept, so none is missing, whatever the names of the files are by now.
        assert_eq!(found, (1..=60).collect::<Vec<u64>>());
        let names = RealDisk.list_dir(&folder.path().join("events")).unwrap();
        assert!(names.iter().any(|name| name == "000001-kept.jsonl"), "{names:?}");
    }

    // covers: D6
    #[test]
    fn what_was_removed_is_counted_where_it_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let output = |seq: u64| JournalEntry {
            event: Event::RigOutput {
                codon_id: CodonId::new("a").unwrap(),
                stream: RigStream::Stdout,
                line: "x".repeat(100),
                command_index: 0,
            },
            ..entry(seq)
        };
        let journal = open(&folder, 1_000, 2_000);
        for seq in 1..=60 {
            let said = match seq % 4 {
                0 => entry(seq),
                _ => output(seq),
            };
            journal.append(&Batch::new(&[said])).unwrap();
            journal.tidy();
        }
        let (mut before, mut removed) = (0, 0);
        let passed = tail(&folder, 0).read(|line| {
            assert_eq!(
                line.removed,
                line.seq - before - 1,
                "each number is there or was removed"
            );
            (before, removed) = (line.seq, removed + line.removed);
            ControlFlow::Continue(())
        });
        assert!(removed > 10 && removed < 45, "{removed}");
        assert_eq!((before, passed.unwrap().removed), (60, removed));
    }

    #[test]
    fn lines_that_a_start_puts_in_do_not_disturb_a_reader_behind_them() {
        let folder = tempfile::tempdir().unwrap();
        let journal = open(&folder, 1 << 20, u64::MAX);
        journal.append(&entries([1, 5, 9])).unwrap();
        let mut tail = tail(&folder, 0);
        assert_eq!(read(&mut tail).0, [1, 5, 9]);
        journal.restore(vec![entry(3), entry(10)]).unwrap();
        assert_eq!(read(&mut tail), (vec![10], SkippedInput::default()));
    }
}
