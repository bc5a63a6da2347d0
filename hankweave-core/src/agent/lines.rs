//! What an agent printed, read but not understood yet.

use std::ops::Range;

use super::json::{Json, Tape};

/// So many lines, or so many values in them, are enough to be handed on.
const FULL_LINES: usize = 4_096;
const FULL_VALUES: usize = 32 << 10;

/// More bytes of text are not kept for other lines, nor the memory of more values than are enough.
const MOST_KEPT: usize = 1 << 20;

/// Lines of an agent that were read as JSON. What they mean, a decoder such as [`ClaudeDecoder`](super::ClaudeDecoder) says. To read a line
/// takes nothing but the line, and about as long as to understand it, so that two threads can share the work.
#[derive(Debug, Default)]
pub struct AgentLines {
    /// The lines, one behind the other.
    text: String,
    tape: Tape,
    lines: Vec<ReadLine>,
}

#[derive(Debug)]
enum ReadLine {
    /// Where its values are on the tape.
    Object(Range<usize>),
    /// Where it is in the text.
    Unparsed(Range<usize>),
    TooLong {
        bytes: u64,
        sha256: String,
    },
}

/// One of the lines.
pub(super) enum Said<'l> {
    Object(Json<'l>),
    /// It is no JSON object.
    Unparsed(&'l str),
    /// It was not read.
    TooLong {
        bytes: u64,
        sha256: &'l str,
    },
}

impl AgentLines {
    /// Reads one more line, given without its line break. One that is empty or blank is left out.
    pub fn push(&mut self, line: &str) {
        let line = line.trim();
        if line.is_empty() {
            return;
        }
        let begin = self.text.len();
        self.text.push_str(line);
        let object = self.tape.read(&self.text, begin).filter(|place| {
            let value = self.tape.value(&self.text, place.clone());
            value.is_object()
        });
        self.lines.push(match object {
            Some(place) => ReadLine::Object(place),
            None => ReadLine::Unparsed(begin..self.text.len()),
        });
    }

    /// Adds a line that was too long to be read: its length in bytes without its line break, and the SHA-256 of these bytes in hexadecimal digits.
    pub fn push_too_long(&mut self, bytes: u64, sha256: String) {
        self.lines.push(ReadLine::TooLong { bytes, sha256 });
    }

    /// Forgets the lines and keeps the memory for others, unless it is much.
    pub fn clear(&mut self) {
        self.text.clear();
        self.text.shrink_to(MOST_KEPT);
        self.tape.clear(FULL_VALUES);
        self.lines.clear();
        self.lines.shrink_to(FULL_LINES);
    }

    /// Whether there are so many that they had better be handed on, before they take much more memory than their text.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.lines.len() >= FULL_LINES || self.tape.len() >= FULL_VALUES
    }

    /// How many lines there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Line number `index`, counted from 0.
    pub(super) fn get(&self, index: usize) -> Option<Said<'_>> {
        Some(match self.lines.get(index)? {
            ReadLine::Object(place) => Said::Object(self.tape.value(&self.text, place.clone())),
            ReadLine::Unparsed(place) => Said::Unparsed(&self.text[place.clone()]),
            ReadLine::TooLong { bytes, sha256 } => Said::TooLong {
                bytes: *bytes,
                sha256,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_itself_whatever_stands_beside_it() {
        let mut lines = AgentLines::default();
        for line in [r#"{"a":1}"#, "", "[1,2", " \t", r#" {"a":{"b":"x"}} "#, "[3]"] {
            lines.push(line);
        }
        lines.push_too_long(7, "abc".to_owned());
        let said = |index| match lines.get(index).unwrap() {
            Said::Object(object) => object.to_value().to_string(),
            Said::Unparsed(text) => text.to_owned(),
            Said::TooLong { bytes, sha256 } => format!("{bytes} {sha256}"),
        };
        let all: Vec<_> = (0..lines.len()).map(said).collect();
        assert_eq!(all, [r#"{"a":1}"#, "[1,2", r#"{"a":{"b":"x"}}"#, "[3]", "7 abc"]);
        assert!(lines.get(5).is_none());
    }

    #[test]
    fn many_lines_or_many_values_are_enough() {
        let pushed_until_full = |line: &str| {
            let mut lines = AgentLines::default();
            while !lines.is_full() {
                lines.push(line);
            }
            lines.len()
        };
        assert_eq!(pushed_until_full("x"), FULL_LINES);
        let values = format!("[{}1]", "1,".repeat(FULL_VALUES / 4 - 2));
        assert_eq!(pushed_until_full(&values), 4);
    }

    #[test]
    fn what_was_forgotten_leaves_its_memory_unless_it_is_much() {
        let mut lines = AgentLines::default();
        lines.push("{}");
        lines.push(&format!("[{}1]", "1,".repeat(2 * MOST_KEPT)));
        lines.clear();
        assert!(lines.is_empty() && lines.text.capacity() == MOST_KEPT);
        assert!(!lines.is_full());
        lines.push("[2]");
        assert!(matches!(lines.get(0), Some(Said::Unparsed("[2]"))));
    }
}
