//! JSON that is put together from its parts: lines are written by the million, and the log's are what everybody waits for.

use hankweave_core::json::push_text;
use hankweave_core::time::Timestamp;

/// Adds times, and remembers the last one: what is recorded together has the same.
#[derive(Debug, Default)]
pub(crate) struct TimeWriter {
    last: Option<Timestamp>,
    /// Its text in quotes.
    text: Vec<u8>,
}

impl TimeWriter {
    /// Adds the text of a time.
    pub(crate) fn push(&mut self, json: &mut Vec<u8>, time: Timestamp) {
        if self.last != Some(time) {
            self.text.clear();
            push_text(&mut self.text, &time.to_string());
            self.last = Some(time);
        }
        json.extend_from_slice(&self.text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_their_serialisation_writes_them() {
        let mut writer = TimeWriter::default();
        for time in [0, 0, 1_736_000_000_000, 0].map(Timestamp::from_millis) {
            let mut json = Vec::new();
            writer.push(&mut json, time);
            assert_eq!(json, serde_json::to_vec(&time).unwrap());
        }
    }
}
