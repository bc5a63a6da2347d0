//! Cutting a stream of bytes into lines of bounded length.

/// One line of output.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// The line without its line break, invalid UTF-8 replaced.
    Text(String),
    /// The line was longer than the limit; its length in bytes.
    TooLong(u64),
}

/// Collects chunks into lines. Holds at most `limit` bytes of an unfinished line, whatever arrives.
///
/// Only `\n` ends a line: JSON strings may contain the other characters that some call line breaks.
#[derive(Debug)]
pub(super) struct LineFramer {
    limit: usize,
    unfinished: Vec<u8>,
    /// Bytes of the unfinished line that were let go because it is too long.
    dropped: u64,
}

impl LineFramer {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            unfinished: Vec::new(),
            dropped: 0,
        }
    }

    /// Takes the next bytes and returns the lines they finish.
    pub(super) fn push(&mut self, chunk: &[u8]) -> Vec<Line> {
        let mut lines = Vec::new();
        let mut rest = chunk;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.extend(&rest[..end]);
            lines.push(self.take());
            rest = &rest[end + 1..];
        }
        self.extend(rest);
        lines
    }

    /// The last line, when the stream did not end with a line break.
    pub(super) fn finish(&mut self) -> Option<Line> {
        (self.dropped > 0 || !self.unfinished.is_empty()).then(|| self.take())
    }

    fn extend(&mut self, bytes: &[u8]) {
        if self.dropped == 0 && self.unfinished.len() + bytes.len() <= self.limit {
            self.unfinished.extend_from_slice(bytes);
            return;
        }
        self.dropped = self
            .dropped
            .saturating_add((self.unfinished.len() + bytes.len()) as u64);
        self.unfinished = Vec::new();
    }

    fn take(&mut self) -> Line {
        let bytes = std::mem::take(&mut self.unfinished);
        match std::mem::take(&mut self.dropped) {
            0 => Line::Text(String::from_utf8_lossy(&bytes).into_owned()),
            dropped => Line::TooLong(dropped),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(line: &str) -> Line {
        Line::Text(line.to_owned())
    }

    #[test]
    fn lines_may_be_spread_over_chunks() {
        let mut framer = LineFramer::new(100);
        assert_eq!(framer.push(b"a"), []);
        assert_eq!(
            framer.push("b\n\nc\u{2028}d\nx".as_bytes()),
            [text("ab"), text(""), text("c\u{2028}d")]
        );
        assert_eq!(framer.finish(), Some(text("x")));
        assert_eq!(framer.finish(), None);
    }

    // covers: S9
    #[test]
    fn a_line_that_is_too_long_leaves_its_length_and_the_next_is_read() {
        let mut framer = LineFramer::new(4);
        assert_eq!(framer.push(b"1234\n12345\n"), [text("1234"), Line::TooLong(5)]);
        for _ in 0..1_000 {
            assert_eq!(framer.push(&[b'x'; 1_000]), []);
        }
        assert!(framer.unfinished.capacity() <= 4);
        assert_eq!(framer.push(b"y\nok\n"), [Line::TooLong(1_000_001), text("ok")]);
    }

    #[test]
    fn invalid_utf8_is_replaced() {
        assert_eq!(LineFramer::new(9).push(b"a\xffb\n"), [text("a\u{fffd}b")]);
    }
}
