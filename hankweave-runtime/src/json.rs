//! JSON that is put together from its parts: lines are written by the million, and the log's are what everybody waits for.

use hankweave_core::time::Timestamp;

/// Adds a text. Most have nothing in them that JSON escapes, and are copied in one piece.
pub(crate) fn push_text(json: &mut Vec<u8>, text: &str) {
    // Every byte is looked at, which the processor does for many of them at a time.
    let is_escaped = |byte: u8| (byte < b' ') | (byte == b'"') | (byte == b'\\');
    if text.bytes().fold(false, |found, byte| found | is_escaped(byte)) {
        serde_json::to_writer(json, text).expect("memory takes everything");
    } else {
        json.push(b'"');
        json.extend_from_slice(text.as_bytes());
        json.push(b'"');
    }
}

/// Adds times, and remembers the last one: what is recorded together has the same.
#[derive(Debug, Default)]
pub(crate) struct TimeWriter {
    last: Option<Timestamp>,
    text: String,
}

impl TimeWriter {
    /// Adds the text of a time.
    pub(crate) fn push(&mut self, json: &mut Vec<u8>, time: Timestamp) {
        if self.last != Some(time) {
            self.text = time.to_string();
            self.last = Some(time);
        }
        push_text(json, &self.text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_times_are_written_as_their_serialisation_writes_them() {
        let every_character: String = (0..=0x2fff).filter_map(char::from_u32).collect();
        for text in [
            "",
            "plain",
            "ü",
            "a\"b",
            "a\\b",
            "\u{7f}",
            "a\nb",
            &every_character,
        ] {
            let mut json = Vec::new();
            push_text(&mut json, text);
            assert_eq!(json, serde_json::to_vec(text).unwrap());
        }
        let mut writer = TimeWriter::default();
        for time in [0, 0, 1_736_000_000_000, 0].map(Timestamp::from_millis) {
            let mut json = Vec::new();
            writer.push(&mut json, time);
            assert_eq!(json, serde_json::to_vec(&time).unwrap());
        }
    }
}
