//! Events that are published together, as values and as lines of the journal.

use hankweave_core::wire::JournalEntry;

/// Entries in the order of their `seq`, with their lines. The lines are encoded once for all subscribers, and no reader in this
/// process has to decode them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Batch {
    /// The lines, each with its newline.
    text: String,
    lines: Vec<LineInfo>,
    entries: Vec<JournalEntry>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LineInfo {
    seq: u64,
    /// The type of the event.
    kind: &'static str,
    /// Offset of the end of the line in the text, after its newline.
    end: usize,
}

impl Batch {
    /// Writes the lines of `entries`, which are in the order of their `seq`.
    #[must_use]
    pub fn new(entries: &[JournalEntry]) -> Self {
        Self::of(entries.to_vec())
    }

    /// Like [`new`](Self::new), without copying the entries.
    pub(crate) fn of(entries: Vec<JournalEntry>) -> Self {
        let mut batch = Self::default();
        for entry in entries {
            batch
                .push(entry)
                .expect("what was read as JSON can be written as JSON");
        }
        batch
    }

    /// Adds an entry and its line. The `seq` of the entry must be higher than those before.
    ///
    /// # Errors
    ///
    /// Returns the error of the serialisation, as for a path that is not UTF-8; nothing is added then.
    pub(crate) fn push(&mut self, entry: JournalEntry) -> serde_json::Result<()> {
        let json = serde_json::to_string(&entry)?;
        self.text.push_str(&json);
        self.text.push('\n');
        self.lines.push(LineInfo {
            seq: entry.seq,
            kind: entry.event.name(),
            end: self.text.len(),
        });
        self.entries.push(entry);
        Ok(())
    }

    /// The lines, each with its newline, as they are in the journal.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// How many events there are.
    pub(crate) fn len(&self) -> usize {
        self.lines.len()
    }

    /// The `seq` of the first event.
    pub(super) fn first_seq(&self) -> Option<u64> {
        self.lines.first().map(|line| line.seq)
    }

    /// Returns the `seq` of the last event, or 0 for an empty batch.
    pub(crate) fn last_seq(&self) -> u64 {
        self.lines.last().map_or(0, |line| line.seq)
    }

    /// How many of the events have a number up to `seq`.
    pub(crate) fn count_until(&self, seq: u64) -> usize {
        self.lines.partition_point(|line| line.seq <= seq)
    }

    /// The lines from position `from` on, counted from 0, each with its newline.
    pub(crate) fn text_from(&self, from: usize) -> &str {
        &self.text[self.begin_of_line(from)..]
    }

    /// The lines, oldest first.
    pub fn lines(&self) -> impl Iterator<Item = BatchLine<'_>> {
        (0..self.len()).map(|index| self.line(index))
    }

    /// Line number `index`, counted from 0.
    pub(crate) fn line(&self, index: usize) -> BatchLine<'_> {
        BatchLine { batch: self, index }
    }

    /// Returns the approximate memory of the batch, in bytes: the entries hold the contents of the lines once more.
    pub(crate) fn bytes(&self) -> usize {
        2 * self.text.len() + size_of_val(&*self.lines) + size_of_val(&*self.entries)
    }

    fn begin_of_line(&self, index: usize) -> usize {
        index.checked_sub(1).map_or(0, |before| self.lines[before].end)
    }
}

/// One line of a [`Batch`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchLine<'b> {
    batch: &'b Batch,
    index: usize,
}

impl<'b> BatchLine<'b> {
    /// The number of the event.
    #[must_use]
    pub fn seq(self) -> u64 {
        self.batch.lines[self.index].seq
    }

    /// The type of the event, as in the line.
    #[must_use]
    pub fn kind(self) -> &'static str {
        self.batch.lines[self.index].kind
    }

    /// The line, one JSON object without a newline.
    #[must_use]
    pub fn text(self) -> &'b str {
        let end = self.batch.lines[self.index].end;
        &self.batch.text[self.batch.begin_of_line(self.index)..end - 1]
    }

    /// Returns the entry of the line.
    #[must_use]
    pub fn value(self) -> &'b JournalEntry {
        &self.batch.entries[self.index]
    }

    /// Returns a copy of the entry; always `Some`.
    #[must_use]
    pub fn entry(self) -> Option<JournalEntry> {
        Some(self.value().clone())
    }
}

#[cfg(test)]
mod tests {
    use super::super::contract::{entries, entry};
    use super::*;

    #[test]
    fn each_entry_has_the_line_that_its_serialisation_gives() {
        let (all, batch) = ([1, 3, 4].map(entry), entries([1, 3, 4]));
        let expected = all.each_ref().map(|entry| serde_json::to_string(entry).unwrap());
        let lines = [0, 1, 2].map(|index| batch.line(index));
        assert_eq!(
            lines.map(|line| line.text()),
            expected.each_ref().map(String::as_str)
        );
        assert_eq!(
            lines.map(|line| (line.seq(), line.kind())),
            [1, 3, 4].map(|seq| (seq, "info"))
        );
        assert_eq!(lines.map(|line| line.entry()), all.map(Some));
        assert_eq!(batch.text().lines().collect::<Vec<_>>(), expected);
        assert_eq!(batch.text_from(2), format!("{}\n", expected[2]));
        assert_eq!((batch.last_seq(), batch.count_until(3)), (4, 2));
    }

    /// In the journal it is a line that no reader of JSON accepts. Here it need not be read.
    #[test]
    fn what_nests_deep_is_handed_over_as_it_is() {
        let mut input = serde_json::Value::Null;
        for _ in 0..200 {
            input = serde_json::json!([input]);
        }
        let deep = JournalEntry {
            event: hankweave_core::wire::Event::AssistantAction {
                codon_id: hankweave_core::id::CodonId::new("a").unwrap(),
                action: hankweave_core::wire::AgentAction::ToolUse,
                content: String::new(),
                tool_name: None,
                tool_input: Some(input),
                tool_use_id: None,
                parent_tool_use_id: None,
            },
            ..entry(1)
        };
        let batch = Batch::new(std::slice::from_ref(&deep));
        assert_eq!(batch.line(0).value(), &deep);
        assert!(JournalEntry::from_json(batch.line(0).text().as_bytes()).is_err());
    }
}
