//! Lines of a transcript: the newest ones, up to a limit; older ones are dropped.

use std::collections::VecDeque;

use anstyle::Style;

/// The most lines.
const LINES: usize = 20_000;
/// The most bytes of all lines together.
const BYTES: usize = 8 << 20;

/// A line of the transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TranscriptRow {
    pub(super) text: String,
    pub(super) style: Style,
}

/// The newest lines. Each has a number that it keeps, counted from 0 for the first line ever.
#[derive(Debug, Default)]
pub(super) struct Ring {
    lines: VecDeque<TranscriptRow>,
    /// Length of all lines together.
    bytes: usize,
    dropped: usize,
}

impl Ring {
    pub(super) fn push(&mut self, text: String, style: Style) {
        self.bytes += text.len();
        self.lines.push_back(TranscriptRow { text, style });
        while self.lines.len() > LINES || (self.bytes > BYTES && self.lines.len() > 1) {
            let Some(oldest) = self.lines.pop_front() else {
                return;
            };
            self.bytes -= oldest.text.len();
            self.dropped += 1;
        }
    }

    /// Returns the number of the oldest line that was not dropped.
    pub(super) fn first(&self) -> usize {
        self.dropped
    }

    /// Returns the number of the next line.
    pub(super) fn end(&self) -> usize {
        self.dropped + self.lines.len()
    }

    /// Returns the lines from this number on.
    pub(super) fn from(&self, number: usize) -> impl Iterator<Item = (usize, &TranscriptRow)> {
        let first = number.max(self.dropped);
        (first..).zip(self.lines.iter().skip(first - self.dropped))
    }

    /// Returns the number of the next line after `number` that contains `needle`, in any case of letters; if there is none, of the first one.
    pub(super) fn find(&self, needle: &str, number: usize) -> Option<usize> {
        let found = |(_, line): &(usize, &TranscriptRow)| holds(&line.text, needle);
        let after = self.from(number + 1).find(found);
        let found = after.or_else(|| self.from(0).find(found))?;
        Some(found.0)
    }

    /// Returns the number of the last line before `number` that contains `needle`; if there is none, of the last one of all.
    pub(super) fn find_back(&self, needle: &str, number: usize) -> Option<usize> {
        let mut before = None;
        let mut last = None;
        for (at, line) in self.from(0) {
            if holds(&line.text, needle) {
                last = Some(at);
                before = if at < number { last } else { before };
            }
        }
        before.or(last)
    }
}

/// Whether `text` contains `needle`, in any case of letters.
pub(super) fn holds(text: &str, needle: &str) -> bool {
    !needle.is_empty() && text.to_lowercase().contains(&needle.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(lines: &[&str]) -> Ring {
        let mut ring = Ring::default();
        for line in lines {
            ring.push((*line).to_owned(), Style::new());
        }
        ring
    }

    #[test]
    fn the_oldest_lines_are_forgotten_and_the_others_keep_their_numbers() {
        let mut ring = Ring::default();
        for number in 0..LINES + 5 {
            ring.push(number.to_string(), Style::new());
        }
        assert_eq!((ring.first(), ring.end()), (5, LINES + 5));
        assert_eq!(
            ring.from(0)
                .next()
                .map(|(number, line)| (number, line.text.as_str())),
            Some((5, "5"))
        );
        ring.push("x".repeat(BYTES + 1), Style::new());
        assert_eq!(ring.end() - ring.first(), 1, "one line stays, however long");
    }

    #[test]
    fn a_search_goes_round_in_both_directions() {
        let ring = ring(&["Error one", "two", "an error", "three"]);
        assert_eq!(ring.find("ERROR", 0), Some(2));
        assert_eq!(ring.find("error", 2), Some(0));
        assert_eq!(ring.find_back("error", 2), Some(0));
        assert_eq!(ring.find_back("error", 0), Some(2));
        assert_eq!((ring.find("four", 0), ring.find("", 0)), (None, None));
    }
}
