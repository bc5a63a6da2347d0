//! Lines of a process, none of which takes more room than it may.

use std::io;
use std::pin::Pin;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// Reads line by line; of a line that is too long the rest is left out.
pub(super) struct BoundedLines {
    reader: BufReader<Pin<Box<dyn AsyncRead + Send>>>,
    line: Vec<u8>,
    longest: usize,
}

impl BoundedLines {
    pub(super) fn new(stream: Pin<Box<dyn AsyncRead + Send>>, longest: usize) -> Self {
        Self {
            reader: BufReader::with_capacity(64 << 10, stream),
            line: Vec::new(),
            longest,
        }
    }

    /// The next line without its end; `None` after the last one.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub(super) async fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let chunk = self.reader.fill_buf().await?;
            if chunk.is_empty() {
                let last = std::mem::take(&mut self.line);
                return Ok((!last.is_empty()).then_some(last));
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let part = &chunk[..end.unwrap_or(chunk.len())];
            let room = self.longest.saturating_sub(self.line.len());
            self.line.extend_from_slice(&part[..part.len().min(room)]);
            let read = part.len() + usize::from(end.is_some());
            self.reader.consume(read);
            if end.is_some() {
                return Ok(Some(std::mem::take(&mut self.line)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_long_line_takes_no_more_room_than_it_may() {
        let text = format!("one\n{}\n\nlast", "x".repeat(200_000));
        let stream = io::Cursor::new(text.into_bytes());
        let mut lines = BoundedLines::new(Box::pin(stream), 5);
        let mut read = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            read.push(String::from_utf8(line).unwrap());
        }
        assert_eq!(read, ["one", "xxxxx", "", "last"]);
    }
}
