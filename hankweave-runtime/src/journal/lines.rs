//! Reading journal lines from a file of any size with little memory.

use std::borrow::Cow;
use std::io;
use std::path::Path;

use hankweave_core::id::EventId;
use hankweave_core::time::Timestamp;
use hankweave_core::wire::{Event, JournalEntry};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::world::disk::Disk;

/// Number of bytes that are read from the disk at a time.
const CHUNK: usize = 64 * 1024;

/// Longest line that is read, in bytes. hankweave writes no longer lines: an entry holds at most one limited line of an agent.
const MAX_LINE: usize = 16 << 20;

/// Number of bytes that are searched at a time for the end of a line that is longer than a chunk.
const SCANNED: usize = 256 * 1024;

/// Longest part of a line before the data of the event, in bytes.
const MAX_HEAD: usize = 4 * 1024;

/// Whether a line is UTF-8 text and valid JSON.
fn is_json(line: &[u8]) -> bool {
    let text = std::str::from_utf8(line);
    text.is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok())
}

/// The entry of a line; `None` when the line was not written whole or was damaged.
pub(super) fn decode(line: &[u8]) -> Option<JournalEntry> {
    JournalEntry::from_json(line).ok()
}

/// The line as it is sent to readers; `None` when it is not JSON.
///
/// Earlier versions recorded the values of variables with a plan, and no reader may see these values. Decoding such an entry and
/// encoding it again keeps only the names of the variables.
pub(super) fn for_readers(line: &[u8]) -> Option<Cow<'_, [u8]>> {
    let has = |part: &str| memchr::memmem::find(line, part.as_bytes()).is_some();
    if !is_json(line) {
        return None;
    }
    if has("\"env\":") && has("\"PlanReplaced\"") {
        return serde_json::to_vec(&decode(line)?).ok().map(Cow::Owned);
    }
    Some(Cow::Borrowed(line))
}

/// The number at the beginning of a line, `{"seq":12,`. The rest of the line is not examined.
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

/// Reads the lines of a file from an offset on, each with its offset, which a search by halving needs. The last line is returned only once it has its
/// newline.
#[derive(Debug)]
pub(super) struct LineReader<'a> {
    disk: &'a dyn Disk,
    path: &'a Path,
    /// Offset of the next chunk in the file.
    read_to: u64,
    /// The bytes that were read last; they end at `read_to`.
    chunk: Vec<u8>,
    /// Offset of the next line in `chunk`.
    next: usize,
    /// Replacement of a line that is too long.
    replacement: Vec<u8>,
    /// Number of bytes after the last line break, once there is no next line.
    unfinished: u64,
}

/// One line without its newline.
pub(super) struct JournalLine<'a> {
    /// Offset of its start in the file.
    pub(super) offset: u64,
    /// The bytes of the line. A line that is too long is replaced by an event that reports the length, or by nothing if the line is
    /// no event.
    pub(super) bytes: &'a [u8],
}

impl<'a> LineReader<'a> {
    /// Reads from `offset` on, where a line begins.
    pub(super) fn new(disk: &'a dyn Disk, path: &'a Path, offset: u64) -> Self {
        Self {
            disk,
            path,
            read_to: offset,
            chunk: Vec::new(),
            next: 0,
            replacement: Vec::new(),
            unfinished: 0,
        }
    }

    /// The next line; `None` at the end of the last whole line.
    pub(super) fn next_line(&mut self) -> io::Result<Option<JournalLine<'_>>> {
        let offset = self.position();
        if let Some(length) = memchr::memchr(b'\n', &self.chunk[self.next..]) {
            return Ok(Some(self.line(offset, length)));
        }
        self.chunk = self.disk.read_at(self.path, offset, CHUNK)?;
        (self.read_to, self.next) = (offset + self.chunk.len() as u64, 0);
        if let Some(length) = memchr::memchr(b'\n', &self.chunk) {
            return Ok(Some(self.line(offset, length)));
        }
        let Some(end) = self.end_of_line(offset)? else {
            return Ok(None);
        };
        // The line is longer than a chunk.
        let file_length = end - offset;
        let allowed_length = usize::try_from(file_length)
            .ok()
            .filter(|length| *length <= MAX_LINE);
        let Some(length) = allowed_length else {
            self.replacement = replacement(&self.chunk, file_length);
            (self.chunk, self.next, self.read_to) = (Vec::new(), 0, end + 1);
            let bytes = &*self.replacement;
            return Ok(Some(JournalLine { offset, bytes }));
        };
        self.chunk = self.disk.read_at(self.path, offset, length + 1)?;
        self.read_to = offset + self.chunk.len() as u64;
        Ok((self.chunk.len() > length).then(|| self.line(offset, length)))
    }

    /// Returns the line of `length` bytes that begins at `next`.
    fn line(&mut self, offset: u64, length: usize) -> JournalLine<'_> {
        let begin = self.next;
        self.next += length + 1;
        let bytes = &self.chunk[begin..begin + length];
        JournalLine { offset, bytes }
    }

    /// Returns the offset of the end of the line at `offset`, whose beginning is in the chunk; `None` if the line has no newline yet. Does not
    /// keep the line in memory.
    fn end_of_line(&mut self, offset: u64) -> io::Result<Option<u64>> {
        let (mut at, mut is_last) = (self.read_to, self.chunk.len() < CHUNK);
        loop {
            if is_last {
                self.unfinished = at - offset;
                return Ok(None);
            }
            let part = self.disk.read_at(self.path, at, SCANNED)?;
            if let Some(length) = memchr::memchr(b'\n', &part) {
                return Ok(Some(at + length as u64));
            }
            at += part.len() as u64;
            is_last = part.len() < SCANNED;
        }
    }

    /// Returns the offset of the next line in the file.
    pub(super) fn position(&self) -> u64 {
        self.read_to - (self.chunk.len() - self.next) as u64
    }

    /// Number of bytes after the last line break, once there is no next line.
    pub(super) fn unfinished(&self) -> u64 {
        self.unfinished
    }
}

/// Returns the event that replaces a line that is too long, with the line's number and id; `head` is the beginning of
/// the line. Empty if the line is no event.
fn replacement(head: &[u8], length: u64) -> Vec<u8> {
    #[derive(Deserialize)]
    struct Head {
        seq: u64,
        id: EventId,
        timestamp: Timestamp,
        #[serde(rename = "type")]
        kind: String,
    }
    let Some(end) = memchr::memmem::find(&head[..head.len().min(MAX_HEAD)], b",\"data\":") else {
        return Vec::new();
    };
    let Ok(head) = serde_json::from_slice::<Head>(&[&head[..end], b"}"].concat()) else {
        return Vec::new();
    };
    let message = format!(
        "left out: an event `{}` of {length} bytes, longer than any that hankweave writes",
        head.kind
    );
    let entry = JournalEntry {
        seq: head.seq,
        id: head.id,
        timestamp: head.timestamp,
        event: Event::Info { message },
    };
    serde_json::to_vec(&entry).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::disk::RealDisk;

    /// Returns the beginning and the length of each line.
    fn lines_of(content: &[u8]) -> Vec<(u64, usize)> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        RealDisk.create_new(&path, content).unwrap();
        let mut lines = LineReader::new(&RealDisk, &path, 0);
        let mut found = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            found.push((line.offset, line.bytes.len()));
        }
        found
    }

    #[test]
    fn lines_are_found_across_chunks() {
        let content = [vec![b'a'; CHUNK + 5], b"\n\nbb\n".to_vec(), vec![b'c'; 3]].concat();
        let first = CHUNK as u64 + 5;
        assert_eq!(
            lines_of(&content),
            [(0, CHUNK + 5), (first + 1, 0), (first + 2, 2)]
        );
        assert_eq!(lines_of(b""), []);
    }

    // covers: F5
    #[test]
    fn a_line_that_is_too_long_is_passed_over() {
        let content = [vec![0; MAX_LINE + 3 * CHUNK], b"\nok\n".to_vec()].concat();
        let lengths: Vec<_> = lines_of(&content).into_iter().map(|(_, length)| length).collect();
        assert_eq!(lengths, [0, 2]);
        let longest = [vec![b'a'; MAX_LINE], b"\n".to_vec()].concat();
        assert_eq!(lines_of(&longest), [(0, MAX_LINE)]);
    }

    // covers: F5
    #[test]
    fn a_line_that_is_too_long_is_replaced_by_an_event_with_its_number() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let head = br#"{"seq":7,"id":"e-7","timestamp":"2025-01-04T12:00:00.000Z","type":"tool.result","data":{"x":""#;
        let long_line = [&head[..], &vec![b'a'; 3 * MAX_LINE], b"\"}}\n"].concat();
        RealDisk
            .create_new(&path, &[&long_line[..], b"next\n"].concat())
            .unwrap();
        let read = |offset: u64| {
            let mut lines = LineReader::new(&RealDisk, &path, offset);
            let bytes = lines.next_line().unwrap().unwrap().bytes.to_vec();
            assert!(lines.chunk.capacity() <= CHUNK);
            assert_eq!(lines.next_line().unwrap().unwrap().bytes, b"next");
            bytes
        };
        let told = decode(&read(0)).unwrap();
        assert_eq!((told.seq, told.id.as_str()), (7, "e-7"));
        let Event::Info { message } = told.event else {
            panic!("{told:?}");
        };
        let length = long_line.len() - 1;
        assert!(
            message.contains("`tool.result`") && message.contains(&length.to_string()),
            "{message}"
        );
        // A search by halving may begin in the middle of the line.
        for offset in [1, MAX_LINE, 2 * MAX_LINE] {
            assert_eq!(read(offset as u64), b"", "the rest of a line is no event");
        }
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
