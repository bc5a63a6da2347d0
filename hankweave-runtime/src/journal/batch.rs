//! Events that are told together, and the lines that the journal has of them.

use hankweave_core::wire::JournalEntry;

use super::lines;
use crate::json::TimeWriter;

/// Entries in the order of their `seq`, written down once for everybody.
#[derive(Debug, Default, PartialEq)]
pub struct Batch {
    entries: Vec<JournalEntry>,
    /// Their lines, each with its newline.
    text: String,
    /// Where the line of each entry ends in `text`, behind its newline.
    ends: Vec<usize>,
}

impl Batch {
    /// Writes the lines of `entries`, which are in the order of their `seq`.
    #[must_use]
    pub fn new(entries: Vec<JournalEntry>) -> Self {
        let mut text = Vec::with_capacity(entries.len() * LINE_BYTES);
        let mut times = TimeWriter::default();
        let ends = entries
            .iter()
            .map(|entry| {
                lines::append(&mut text, &mut times, entry);
                text.len()
            })
            .collect();
        let text = String::from_utf8(text).expect("JSON is text");
        Self { entries, text, ends }
    }

    /// The entries, oldest first.
    #[must_use]
    pub fn entries(&self) -> &[JournalEntry] {
        &self.entries
    }

    /// Their lines, one behind the other, each with its newline: what stands in the journal.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The `seq` of the last entry; 0 when there is none.
    pub(crate) fn last_seq(&self) -> u64 {
        self.entries.last().map_or(0, |entry| entry.seq)
    }

    /// The lines from entry number `from` on, one behind the other, each with its newline.
    pub(crate) fn text_from(&self, from: usize) -> &str {
        &self.text[self.begin_of_line(from)..]
    }

    /// The line of entry number `index`, one JSON object without a newline.
    pub(crate) fn line(&self, index: usize) -> &str {
        &self.text[self.begin_of_line(index)..self.ends[index] - 1]
    }

    /// About how much memory it takes, in bytes; what the entries hold besides is a part of their lines.
    pub(crate) fn bytes(&self) -> usize {
        2 * self.text.len() + self.entries.len() * size_of::<JournalEntry>()
    }

    fn begin_of_line(&self, index: usize) -> usize {
        index.checked_sub(1).map_or(0, |before| self.ends[before])
    }
}

/// What most lines need at most.
const LINE_BYTES: usize = 256;

#[cfg(test)]
mod tests {
    use super::super::contract::entries;

    #[test]
    fn each_entry_has_the_line_that_its_serialisation_gives() {
        let batch = entries([1, 3, 4]);
        let expected: Vec<_> = batch
            .entries()
            .iter()
            .map(|entry| serde_json::to_string(entry).unwrap())
            .collect();
        assert_eq!([0, 1, 2].map(|index| batch.line(index)), *expected);
        assert_eq!(batch.text().lines().collect::<Vec<_>>(), expected);
        assert_eq!(batch.text_from(2), format!("{}\n", expected[2]));
        assert_eq!(batch.last_seq(), 4);
    }
}
