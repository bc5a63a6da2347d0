//! Reading journal lines from a file of any size with little memory.

use std::borrow::Cow;
use std::io;
use std::path::Path;

use hankweave_core::wire::JournalEntry;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::world::disk::Disk;

/// Bytes that are read from the disk at a time. Memory for more would come from the system anew each time, which takes longer than reading.
const CHUNK: usize = 64 * 1024;

/// Longer lines are none of ours: an entry holds at most one limited line of an agent.
const MAX_LINE: usize = 16 << 20;

/// Whether a line is text and JSON, whatever it says.
pub(super) fn is_json(line: &[u8]) -> bool {
    let text = std::str::from_utf8(line);
    text.is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok())
}

/// The entry of a line; `None` when it was not written whole or was damaged.
pub(super) fn decode(line: &[u8]) -> Option<JournalEntry> {
    JournalEntry::from_json(line).ok()
}

/// The number at the beginning of a line, `{"seq":12,`, without looking at the rest.
pub(super) fn seq_of(line: &[u8]) -> Option<u64> {
    let digits = line.strip_prefix(b"{\"seq\":")?;
    let mut seq: u64 = 0;
    for (place, byte) in digits.iter().enumerate() {
        if !byte.is_ascii_digit() {
            return (place > 0).then_some(seq);
        }
        seq = seq.checked_mul(10)?.checked_add(u64::from(byte - b'0'))?;
    }
    None
}

/// The type of the event in a line; `None` when the line is no entry.
pub(super) fn kind_of(line: &[u8]) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Head<'a> {
        #[serde(borrow, rename = "type")]
        kind: Cow<'a, str>,
    }
    let head: Head<'_> = serde_json::from_slice(line).ok()?;
    Some(head.kind)
}

/// Reads the lines of a file from some place on. The last line is given out only once it has its newline.
#[derive(Debug)]
pub(super) struct Lines<'a> {
    disk: &'a dyn Disk,
    path: &'a Path,
    /// Where the next chunk begins in the file.
    read_to: u64,
    chunk: Vec<u8>,
    /// Where the next line begins in `chunk`.
    next: usize,
    /// A longer line is being passed over.
    too_long: bool,
}

/// One line without its newline.
pub(super) struct Line<'a> {
    /// Where it begins in the file.
    pub(super) offset: u64,
    /// Its bytes; `None` when it is longer than any line of ours.
    pub(super) bytes: Option<&'a [u8]>,
}

impl<'a> Lines<'a> {
    /// Reads from `offset` on, where a line begins.
    pub(super) fn new(disk: &'a dyn Disk, path: &'a Path, offset: u64) -> Self {
        Self {
            disk,
            path,
            read_to: offset,
            chunk: Vec::new(),
            next: 0,
            too_long: false,
        }
    }

    /// The next line; `None` at the end of the last whole line.
    pub(super) fn next_line(&mut self) -> io::Result<Option<Line<'_>>> {
        let mut searched = self.next;
        loop {
            if let Some(length) = memchr::memchr(b'\n', &self.chunk[searched..]) {
                let (start, end) = (self.next, searched + length);
                self.next = end + 1;
                let offset = self.read_to - (self.chunk.len() - start) as u64;
                let bytes = (!std::mem::take(&mut self.too_long)).then_some(&self.chunk[start..end]);
                return Ok(Some(Line { offset, bytes }));
            }
            searched = match self.read_more()? {
                Some(searched) => searched,
                None => return Ok(None),
            };
        }
    }

    /// Where the next line begins in the file.
    pub(super) fn position(&self) -> u64 {
        self.read_to - (self.chunk.len() - self.next) as u64
    }

    /// How many bytes stand behind the last line break, once there is no next line.
    pub(super) fn unfinished(&self) -> u64 {
        (self.chunk.len() - self.next) as u64
    }

    /// Reads the unfinished line and what comes behind it, and says from where on it has not been searched.
    ///
    /// Reading the beginning of a line again takes less than taking along what was read.
    fn read_more(&mut self) -> io::Result<Option<usize>> {
        if self.chunk.len() - self.next > MAX_LINE {
            self.too_long = true;
            self.next = self.chunk.len();
        }
        let (begin, known) = (self.position(), self.chunk.len() - self.next);
        let chunk = self
            .disk
            .read_at(self.path, begin, (2 * known).clamp(CHUNK, MAX_LINE + CHUNK))?;
        if chunk.len() <= known {
            return Ok(None);
        }
        self.read_to = begin + chunk.len() as u64;
        (self.chunk, self.next) = (chunk, 0);
        Ok(Some(known))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::disk::RealDisk;

    /// Where each line begins and how long it is.
    fn lines_of(content: &[u8]) -> Vec<(u64, Option<usize>)> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        RealDisk.create_new(&path, content).unwrap();
        let mut lines = Lines::new(&RealDisk, &path, 0);
        let mut found = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            found.push((line.offset, line.bytes.map(<[u8]>::len)));
        }
        found
    }

    #[test]
    fn lines_are_found_across_chunks() {
        let content = [vec![b'a'; CHUNK + 5], b"\n\nbb\n".to_vec(), vec![b'c'; 3]].concat();
        let first = CHUNK as u64 + 5;
        assert_eq!(
            lines_of(&content),
            [(0, Some(CHUNK + 5)), (first + 1, Some(0)), (first + 2, Some(2))]
        );
        assert_eq!(lines_of(b""), []);
    }

    // covers: F5
    #[test]
    fn a_line_that_is_too_long_is_passed_over_in_bounded_memory() {
        let content = [vec![0; MAX_LINE + 3 * CHUNK], b"\nok\n".to_vec()].concat();
        let lengths: Vec<_> = lines_of(&content).into_iter().map(|(_, length)| length).collect();
        assert_eq!(lengths, [None, Some(2)]);
    }

    #[test]
    fn the_number_is_read_from_the_beginning_of_a_line() {
        assert_eq!(seq_of(b"{\"seq\":12,\"id\""), Some(12));
        assert_eq!(seq_of(b"{\"seq\":12"), None);
        assert_eq!(seq_of(b"{\"seq\":,\"id\""), None);
        assert_eq!(seq_of(b"{\"seq\":18446744073709551615,"), Some(u64::MAX));
        assert_eq!(seq_of(b"{\"seq\":18446744073709551616,"), None);
        assert_eq!(seq_of(b"\0\0\0"), None);
    }
}
