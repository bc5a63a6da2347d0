//! Pieces of messages, which are not needed: the complete message follows as a line of its own.

/// The beginning of a line with a piece of a message.
const PIECE: &[u8] = br#"{"type":"stream_event","event":{"type":"content_block_delta","#;

/// Removes the lines with pieces of messages from a stream, without decoding them.
#[derive(Debug, Default)]
pub(super) struct PieceFilter {
    place: LinePosition,
    /// Memory that is used again.
    kept: Vec<u8>,
}

/// Position of the stream in its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinePosition {
    /// This many bytes match [`PIECE`] and are held back.
    Begin(usize),
    Kept,
    PassedOver,
}

impl Default for LinePosition {
    fn default() -> Self {
        Self::Begin(0)
    }
}

impl PieceFilter {
    /// Removes pieces from `chunk`, and inserts what was held back of the chunk before.
    pub(super) fn filter(&mut self, chunk: &mut Vec<u8>) {
        self.kept.clear();
        let mut rest = &chunk[..];
        while !rest.is_empty() {
            rest = match self.place {
                LinePosition::Begin(same) => self.start_line(same, rest),
                LinePosition::Kept | LinePosition::PassedOver => self.skip_rest(rest),
            };
        }
        std::mem::swap(chunk, &mut self.kept);
    }

    /// Returns the bytes that were held back when the stream ended.
    pub(super) fn finish(&mut self) -> &'static [u8] {
        match std::mem::take(&mut self.place) {
            LinePosition::Begin(same) => &PIECE[..same],
            LinePosition::Kept | LinePosition::PassedOver => &[],
        }
    }

    fn start_line<'c>(&mut self, same: usize, rest: &'c [u8]) -> &'c [u8] {
        let wanted = &PIECE[same..];
        let more = wanted.iter().zip(rest).take_while(|(a, b)| a == b).count();
        if more == wanted.len() {
            self.place = LinePosition::PassedOver;
        } else if more == rest.len() {
            self.place = LinePosition::Begin(same + more);
        } else {
            self.kept.extend_from_slice(&PIECE[..same + more]);
            self.place = LinePosition::Kept;
        }
        &rest[more..]
    }

    fn skip_rest<'c>(&mut self, rest: &'c [u8]) -> &'c [u8] {
        let end = memchr::memchr(b'\n', rest).map(|end| end + 1);
        let (line, behind) = rest.split_at(end.unwrap_or(rest.len()));
        if self.place == LinePosition::Kept {
            self.kept.extend_from_slice(line);
        }
        if end.is_some() {
            self.place = LinePosition::Begin(0);
        }
        behind
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
