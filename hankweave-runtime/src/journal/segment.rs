//! One file of the journal, with lines in the order of `seq`.

use std::io;
use std::path::{Path, PathBuf};

use super::lines::{LineReader, seq_of};
use crate::world::disk::Disk;

/// A file of the journal.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Segment {
    /// Position among the files, counted from 1; part of its name.
    pub(super) number: u32,
    pub(super) path: PathBuf,
    /// The lowest `seq` that it can hold.
    pub(super) first_seq: u64,
    /// Whether the output of agents was removed from it.
    pub(super) kept: bool,
}

/// Part of a file's name, after the number, if the output of agents was removed from the file.
const KEPT: &str = "-kept";

/// Distance in bytes below which the search by halving ends, and lines are read one after the other.
const NEAR: u64 = 64 * 1024;

impl Segment {
    /// The segment `number` in `dir`.
    pub(super) fn new(dir: &Path, number: u32, first_seq: u64) -> Self {
        Self {
            number,
            path: dir.join(format!("{number:06}.jsonl")),
            first_seq,
            kept: false,
        }
    }

    /// Returns the segment without the output of agents.
    pub(super) fn as_kept(&self, dir: &Path) -> Self {
        Self {
            path: dir.join(format!("{:06}{KEPT}.jsonl", self.number)),
            kept: true,
            ..self.clone()
        }
    }

    /// The number in the name of a segment file, and whether the output of agents was removed from it.
    pub(super) fn number_in(name: &str) -> Option<(u32, bool)> {
        let name = name.strip_suffix(".jsonl")?;
        let (number, kept) = match name.strip_suffix(KEPT) {
            Some(number) => (number, true),
            None => (name, false),
        };
        Some((number.parse().ok()?, kept))
    }

    /// The lines from `offset` on, where a line begins.
    pub(super) fn lines<'a>(&'a self, disk: &'a dyn Disk, offset: u64) -> LineReader<'a> {
        LineReader::new(disk, &self.path, offset)
    }

    /// The `seq` of the first line that has one, at or after `offset`, where a line begins.
    pub(super) fn seq_at(&self, disk: &dyn Disk, offset: u64) -> io::Result<Option<u64>> {
        let mut lines = self.lines(disk, offset);
        while let Some(line) = lines.next_line()? {
            if let Some(seq) = seq_of(line.bytes) {
                return Ok(Some(seq));
            }
        }
        Ok(None)
    }

    /// The highest `seq` in the segment.
    pub(super) fn last_seq(&self, disk: &dyn Disk) -> io::Result<Option<u64>> {
        let length = disk.metadata(&self.path)?.length;
        // The last lines nearly always have a number; the whole file is read only after damage.
        for window in [64 << 10, 4 << 20, u64::MAX] {
            let start = length.saturating_sub(window);
            let mut lines = self.lines(disk, start);
            let mut last = None;
            while let Some(line) = lines.next_line()? {
                // The window may begin inside a line; the end of that line counts as a line without a number.
                last = seq_of(line.bytes).max(last);
            }
            if last.is_some() || start == 0 {
                return Ok(last);
            }
        }
        Ok(None)
    }

    /// Returns the offset of the first line with a `seq` greater than `after`, or of a line before it. Found by halving, since lines are
    /// in order.
    pub(super) fn offset_before(&self, disk: &dyn Disk, after: u64) -> io::Result<u64> {
        let (mut low, mut high) = (0, 0);
        if self.first_seq <= after {
            high = disk.metadata(&self.path)?.length;
        }
        while high.saturating_sub(low) > NEAR {
            let middle = low + (high - low) / 2;
            match self.line_after(disk, middle, high)? {
                Some((offset, seq)) if seq <= after => low = offset,
                Some(_) | None => high = middle,
            }
        }
        Ok(low)
    }

    /// The offset and the number of the first line with a number that begins between `offset` and `end`.
    fn line_after(&self, disk: &dyn Disk, offset: u64, end: u64) -> io::Result<Option<(u64, u64)>> {
        let mut lines = self.lines(disk, offset);
        // `offset` is somewhere inside a line, so the rest of that line is skipped.
        lines.next_line()?;
        while let Some(line) = lines.next_line()? {
            if line.offset >= end {
                return Ok(None);
            }
            if let Some(seq) = seq_of(line.bytes) {
                return Ok(Some((line.offset, seq)));
            }
        }
        Ok(None)
    }
}
