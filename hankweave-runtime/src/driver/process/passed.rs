//! Removes the pieces of messages from the output of claude. Claude prints each message piece by piece while its model writes it, and then complete, as a
//! line of its own; only the complete one is needed.

/// The beginning of each line with a piece of a message.
const PIECE: &[u8] = br#"{"type":"stream_event","event":{"type":"content_block_delta","#;

/// Removes the lines with pieces of messages from a stream, without decoding them.
#[derive(Debug, Default)]
pub(super) struct PieceFilter {
    position: LinePosition,
    /// Bytes of the chunk that are kept; a field, so that its memory is used again.
    kept: Vec<u8>,
}

/// Position of the stream in a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinePosition {
    /// At its beginning: this many bytes match [`PIECE`] and are held back.
    Beginning(usize),
    Kept,
    Removed,
}

impl Default for LinePosition {
    fn default() -> Self {
        Self::Beginning(0)
    }
}

impl PieceFilter {
    /// Removes pieces from `chunk`, and inserts the bytes that were held back from the previous chunk.
    pub(super) fn filter(&mut self, chunk: &mut Vec<u8>) {
        self.kept.clear();
        let mut rest = &chunk[..];
        while !rest.is_empty() {
            rest = match self.position {
                LinePosition::Beginning(matched) => self.start_line(matched, rest),
                LinePosition::Kept | LinePosition::Removed => self.end_line(rest),
            };
        }
        std::mem::swap(chunk, &mut self.kept);
    }

    /// Returns the bytes that are still held back when the stream ends.
    pub(super) fn finish(&mut self) -> &'static [u8] {
        match std::mem::take(&mut self.position) {
            LinePosition::Beginning(matched) => &PIECE[..matched],
            LinePosition::Kept | LinePosition::Removed => &[],
        }
    }

    /// Compares `rest` with [`PIECE`] after its first `matched` bytes, and returns the bytes after the matching ones.
    fn start_line<'c>(&mut self, matched: usize, rest: &'c [u8]) -> &'c [u8] {
        let expected = &PIECE[matched..];
        let more = expected.iter().zip(rest).take_while(|(a, b)| a == b).count();
        if more == expected.len() {
            self.position = LinePosition::Removed;
        } else if more == rest.len() {
            self.position = LinePosition::Beginning(matched + more);
        } else {
            self.kept.extend_from_slice(&PIECE[..matched + more]);
            self.position = LinePosition::Kept;
        }
        &rest[more..]
    }

    /// Keeps or removes `rest` up to the end of the line, and returns the bytes after it.
    fn end_line<'c>(&mut self, rest: &'c [u8]) -> &'c [u8] {
        let end = memchr::memchr(b'\n', rest).map(|end| end + 1);
        let (line, next_lines) = rest.split_at(end.unwrap_or(rest.len()));
        if self.position == LinePosition::Kept {
            self.kept.extend_from_slice(line);
        }
        if end.is_some() {
            self.position = LinePosition::Beginning(0);
        }
        next_lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_left_out_wherever_the_stream_is_cut() {
        let piece = String::from_utf8_lossy(PIECE).into_owned() + "\"delta\":\"w\\n\"}}\n";
        let almost = piece.replace("delta", "start");
        let stream = format!("{piece}{{}}\n\n{piece}{almost}x\n{piece}{piece}{{\"type\":\"str");
        let wanted = format!("{{}}\n\n{almost}x\n{{\"type\":\"str");
        for size in 1..stream.len() {
            let (mut passed, mut kept) = (PieceFilter::default(), Vec::new());
            for chunk in stream.as_bytes().chunks(size) {
                let mut chunk = chunk.to_vec();
                passed.filter(&mut chunk);
                kept.extend(chunk);
            }
            kept.extend(passed.finish());
            assert_eq!(String::from_utf8(kept).unwrap(), wanted, "{size}");
        }
    }
}
