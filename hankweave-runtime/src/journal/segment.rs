//! One file of the journal, with lines in the order of `seq`.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::lines::{Lines, LongLines, seq_of};
use crate::world::disk::Disk;

/// A file of the journal.
#[derive(Debug, Clone)]
pub(super) struct Segment {
    /// Its place among the files; part of its name.
    pub(super) number: u32,
    /// Where it is.
    pub(super) path: PathBuf,
    /// The lowest `seq` that it can hold.
    pub(super) first_seq: u64,
    /// Whether the output of agents was taken out of it.
    pub(super) kept: bool,
    /// What is known of lines that are too long; shared by all who read the file.
    long: Arc<LongLines>,
}

impl PartialEq for Segment {
    fn eq(&self, other: &Self) -> bool {
        (self.number, &self.path, self.first_seq) == (other.number, &other.path, other.first_seq)
    }
}

/// What stands behind the number when the output of agents was taken out.
const KEPT: &str = "-kept";

/// Below this distance the place of a number is found by reading on instead of halving again.
const NEAR: u64 = 64 * 1024;

impl Segment {
    /// The segment `number` in `dir`.
    pub(super) fn new(dir: &Path, number: u32, first_seq: u64) -> Self {
        Self {
            number,
            path: dir.join(format!("{number:06}.jsonl")),
            first_seq,
            kept: false,
            long: Arc::default(),
        }
    }

    /// The same without the output of agents.
    pub(super) fn as_kept(&self, dir: &Path) -> Self {
        Self {
            path: dir.join(format!("{:06}{KEPT}.jsonl", self.number)),
            kept: true,
            long: Arc::default(),
            ..self.clone()
        }
    }

    /// The number in the name of a segment file, and whether the output of agents was taken out of it.
    pub(super) fn number_in(name: &str) -> Option<(u32, bool)> {
        let name = name.strip_suffix(".jsonl")?;
        let (number, kept) = match name.strip_suffix(KEPT) {
            Some(number) => (number, true),
            None => (name, false),
        };
        Some((number.parse().ok()?, kept))
    }

    /// The file has other lines from now on.
    pub(super) fn forget_lines(&mut self) {
        self.long = Arc::default();
    }

    /// The lines from `offset` on, where one begins.
    pub(super) fn lines<'a>(&'a self, disk: &'a dyn Disk, offset: u64) -> Lines<'a> {
        Lines::new(disk, &self.path, &self.long, offset)
    }

    /// The `seq` of the first line that has one, at or behind `offset`, where a line begins.
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
        // Nearly always the last lines tell; only damage makes it worth reading everything.
        for window in [64 << 10, 4 << 20, u64::MAX] {
            let start = length.saturating_sub(window);
            let mut lines = self.lines(disk, start);
            let mut last = None;
            while let Some(line) = lines.next_line()? {
                // The window may begin inside a line, whose end is no line of ours and has no number.
                last = seq_of(line.bytes).max(last);
            }
            if last.is_some() || start == 0 {
                return Ok(last);
            }
        }
        Ok(None)
    }

    /// Where a line begins that is not behind the first with a `seq` greater than `after`, which is known to begin in `range`.
    ///
    /// Halves what is left, since lines are in order.
    pub(super) fn place_of(&self, disk: &dyn Disk, after: u64, range: Range<u64>) -> io::Result<u64> {
        let (mut low, mut high) = (range.start, range.end);
        if high == u64::MAX {
            high = disk.metadata(&self.path)?.length;
        }
        while high.saturating_sub(low) > NEAR {
            let middle = low + (high - low) / 2;
            match self.line_behind(disk, middle, high)? {
                Some((offset, seq)) if seq <= after => low = offset,
                Some(_) | None => high = middle,
            }
        }
        Ok(low)
    }

    /// The first line with a number that begins between `offset` and `end`.
    fn line_behind(&self, disk: &dyn Disk, offset: u64, end: u64) -> io::Result<Option<(u64, u64)>> {
        let mut lines = self.lines(disk, offset);
        // `offset` is somewhere inside a line: its rest does not count.
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
