//! Lines of a process's output, in pieces of limited length.

use std::io;
use std::pin::Pin;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};

/// Reads line by line; a line that is too long is returned in several pieces.
#[derive(Debug)]
pub struct BoundedLines<R = Pin<Box<dyn AsyncRead + Send>>> {
    reader: BufReader<R>,
    /// The byte that ends a line.
    end: u8,
    /// Maximum length of a piece, in bytes.
    longest: usize,
    /// Bytes of the next piece, read before `next` was cancelled.
    unfinished: Vec<u8>,
    /// Whether the last piece did not end its line.
    is_begun: bool,
}

/// A line, or a piece of a longer one.
#[derive(Debug, PartialEq, Eq)]
pub struct LinePiece {
    /// Bytes of the piece, without the end of the line.
    pub bytes: Vec<u8>,
    /// Whether the line begins with this piece.
    pub is_first: bool,
    /// Whether the line ends with this piece.
    pub is_last: bool,
}

impl<R: AsyncRead + Unpin> BoundedLines<R> {
    /// Reads lines that end with the byte `end`, in pieces of at most `longest` bytes including that byte.
    pub fn new(stream: R, end: u8, longest: usize) -> Self {
        Self {
            reader: BufReader::with_capacity(64 << 10, stream),
            end,
            longest,
            unfinished: Vec::new(),
            is_begun: false,
        }
    }

    /// The next piece; `None` at the end of the stream.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    ///
    /// # Errors
    ///
    /// Returns the error of the system.
    pub async fn next(&mut self) -> io::Result<Option<LinePiece>> {
        let room = self.longest.saturating_sub(self.unfinished.len());
        let mut limited = (&mut self.reader).take(room as u64);
        limited.read_until(self.end, &mut self.unfinished).await?;
        let mut bytes = std::mem::take(&mut self.unfinished);
        let is_last = bytes.pop_if(|byte| *byte == self.end).is_some();
        if bytes.is_empty() && !is_last {
            return Ok(None);
        }
        let is_first = !std::mem::replace(&mut self.is_begun, !is_last);
        Ok(Some(LinePiece {
            bytes,
            is_first,
            is_last,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_long_line_takes_no_more_room_than_it_may() {
        let text = "one\nxxxxxxxxxxxx\n\n12345\nlast";
        let mut lines = BoundedLines::new(text.as_bytes(), b'\n', 5);
        let mut read = Vec::new();
        while let Some(piece) = lines.next().await.unwrap() {
            let text = String::from_utf8(piece.bytes).unwrap();
            let (begin, end) = (
                ["", "<"][usize::from(piece.is_first)],
                ["", ">"][usize::from(piece.is_last)],
            );
            read.push(format!("{begin}{text}{end}"));
        }
        let expected = ["<one>", "<xxxxx", "xxxxx", "xx>", "<>", "<12345", ">", "<last"];
        assert_eq!(read, expected);
    }
}
