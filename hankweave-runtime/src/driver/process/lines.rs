//! Cutting a stream of bytes into lines of bounded length.

use std::borrow::Cow;

use hankweave_agents::AgentLine;
use sha2::{Digest, Sha256};

use crate::world::ids::hex;

/// One line of output, borrowed from the chunk when it came in one piece.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::driver) enum OutputLine<'c> {
    /// The line without its line break, invalid UTF-8 replaced.
    Text(Cow<'c, str>),
    /// The line was longer than the limit (S9).
    TooLong {
        /// Its length in bytes.
        bytes: u64,
        /// Its SHA-256 in hexadecimal digits.
        sha256: String,
    },
}

/// Cuts chunks into lines. A line that is complete in one chunk is not copied, because agents print millions of lines. At most `limit` bytes of an unfinished
/// line are kept, of any input.
///
/// Only `\n` ends a line: JSON strings may contain other characters that count as line breaks elsewhere.
#[derive(Debug)]
pub(in crate::driver) struct LineFramer {
    limit: usize,
    /// Start of a line whose end has not arrived.
    unfinished: Vec<u8>,
    /// Replaces `unfinished` once the line is longer than the limit.
    dropped: Option<OversizedLine>,
}

/// A line that is too long to be kept, as far as it has arrived.
#[derive(Debug, Clone, Default)]
struct OversizedLine {
    bytes: u64,
    hash: Sha256,
}

impl OversizedLine {
    fn add(&mut self, bytes: &[u8]) {
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        self.hash.update(bytes);
    }

    fn into_line<'c>(self) -> OutputLine<'c> {
        OutputLine::TooLong {
            bytes: self.bytes,
            sha256: hex(&self.hash.finalize()),
        }
    }
}

impl OutputLine<'_> {
    /// Returns the line for a decoder.
    pub(in crate::driver) fn as_agent_line(&self) -> AgentLine<'_> {
        match self {
            Self::Text(text) => AgentLine::Text(text),
            Self::TooLong { bytes, sha256 } => AgentLine::TooLong {
                bytes: *bytes,
                sha256,
            },
        }
    }
}

impl LineFramer {
    pub(in crate::driver) fn new(limit: usize) -> Self {
        Self {
            limit,
            unfinished: Vec::new(),
            dropped: None,
        }
    }

    /// Takes the next line from the front of `rest`. If `rest` has no end of a line, keeps its bytes for later and returns `None`.
    pub(in crate::driver) fn next<'c>(&mut self, rest: &mut &'c [u8]) -> Option<OutputLine<'c>> {
        let Some(end) = memchr::memchr(b'\n', rest) else {
            self.extend(rest);
            *rest = &[];
            return None;
        };
        let line = &rest[..end];
        *rest = &rest[end + 1..];
        let in_one_piece = self.unfinished.is_empty() && self.dropped.is_none();
        if in_one_piece && line.len() <= self.limit {
            return Some(OutputLine::Text(borrowed(line)));
        }
        self.extend(line);
        Some(self.take_line())
    }

    /// Returns the last line, when the stream did not end with a line break.
    pub(in crate::driver) fn finish(&mut self) -> Option<OutputLine<'static>> {
        (self.dropped.is_some() || !self.unfinished.is_empty()).then(|| self.take_line())
    }

    fn extend(&mut self, bytes: &[u8]) {
        if self.dropped.is_none() && self.unfinished.len() + bytes.len() <= self.limit {
            self.unfinished.extend_from_slice(bytes);
            return;
        }
        let dropped = self.dropped.get_or_insert_default();
        dropped.add(&std::mem::take(&mut self.unfinished));
        dropped.add(bytes);
    }

    fn take_line(&mut self) -> OutputLine<'static> {
        let bytes = std::mem::take(&mut self.unfinished);
        match self.dropped.take() {
            None => OutputLine::Text(owned(bytes).into()),
            Some(dropped) => dropped.into_line(),
        }
    }
}

/// Returns the line as text, copied only if invalid UTF-8 is replaced. `from_utf8` comes first because it is ten times as fast.
fn borrowed(line: &[u8]) -> Cow<'_, str> {
    std::str::from_utf8(line).map_or_else(|_| String::from_utf8_lossy(line), Cow::Borrowed)
}

/// Converts a line without a copy, unless invalid UTF-8 is replaced.
fn owned(line: Vec<u8>) -> String {
    String::from_utf8(line).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> OutputLine<'_> {
        OutputLine::Text(text.into())
    }

    fn too_long(bytes: u64, sha256: &str) -> OutputLine<'static> {
        let sha256 = sha256.to_owned();
        OutputLine::TooLong { bytes, sha256 }
    }

    /// The lines that a chunk finishes.
    fn lines<'c>(framer: &mut LineFramer, mut chunk: &'c [u8]) -> Vec<OutputLine<'c>> {
        std::iter::from_fn(|| framer.next(&mut chunk)).collect()
    }

    /// Checksum of `12345`, from `printf 12345 | sha256sum`.
    const DIGITS: &str = "5994471abb01112afcc18159f6cc74b4f511b99806da59b3caf5a9c173cacfc5";

    /// Checksum of a million `x` and one `y`.
    const MILLION: &str = "51bdfd03df41e22b7e893b344df1c01a6f8f0b184ba81c8bfa5f689fee493538";

    #[test]
    fn lines_may_be_spread_over_chunks() {
        let mut framer = LineFramer::new(100);
        assert_eq!(lines(&mut framer, b"a"), []);
        assert_eq!(
            lines(&mut framer, "b\n\nc\u{2028}d\nx".as_bytes()),
            [line("ab"), line(""), line("c\u{2028}d")]
        );
        assert_eq!(framer.finish(), Some(line("x")));
        assert_eq!(framer.finish(), None);
    }

    // covers: S9
    #[test]
    fn a_line_that_is_too_long_leaves_its_length_and_hash_and_the_next_is_read() {
        let mut framer = LineFramer::new(4);
        assert_eq!(
            lines(&mut framer, b"1234\n12345\n"),
            [line("1234"), too_long(5, DIGITS)]
        );
        for _ in 0..1_000 {
            assert_eq!(lines(&mut framer, &[b'x'; 1_000]), []);
        }
        assert!(framer.unfinished.capacity() <= 4);
        assert_eq!(
            lines(&mut framer, b"y\nok\n"),
            [too_long(1_000_001, MILLION), line("ok")]
        );
    }

    #[test]
    fn invalid_utf8_is_replaced() {
        assert_eq!(lines(&mut LineFramer::new(9), b"a\xffb\n"), [line("a\u{fffd}b")]);
    }
}
