//! Details of a task for people, in lines that fit their terminal.

use std::fmt::Write as _;

use serde_json::Value;

use crate::terminal::screen::{SafeText, columns_of_output, one_line};
use crate::terminal::wrap::wrap;

/// Column in which values start.
const INDENT: usize = 15;

/// Lines `label value` of a task.
pub(super) struct Details {
    text: SafeText,
    /// Columns of the output; `None` if it is no terminal.
    room: Option<usize>,
}

impl Details {
    /// Starts with the line of the task itself.
    pub(super) fn new(line: SafeText) -> Self {
        Self {
            text: line,
            room: columns_of_output(),
        }
    }

    /// Adds a text, broken between its words where the terminal ends; null adds nothing.
    pub(super) fn add(&mut self, label: &str, value: &Value) {
        let Some(value) = text_of(value) else { return };
        for (number, line) in broken(&value, self.room, INDENT).into_iter().enumerate() {
            let label = if number == 0 { label } else { "" };
            self.line(label, &line);
        }
    }

    /// Adds a command or a path, which stays in one piece so that it can be pasted.
    pub(super) fn add_whole(&mut self, label: &str, value: &Value) {
        if let Some(value) = text_of(value) {
            self.line(label, &value);
        }
    }

    fn line(&mut self, label: &str, value: &str) {
        // Writing to a text cannot fail.
        let _ = writeln!(self.text, "  {label:<12} {value}");
    }

    pub(super) fn into_text(self) -> SafeText {
        self.text
    }
}

fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(value) => Some(one_line(value)),
        other => Some(one_line(other)),
    }
}

/// Wraps a text to `room` columns without the indent. Returns one line if the output is no terminal or has little room.
pub(super) fn broken(text: &str, room: Option<usize>, indent: usize) -> Vec<String> {
    let room = room.map(|room| room.saturating_sub(indent));
    match room.filter(|room| *room >= LEAST_ROOM) {
        Some(room) => wrap(text, room),
        None => vec![text.to_owned()],
    }
}

/// Least room in which words are broken into lines.
const LEAST_ROOM: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_broken_between_words_and_a_command_never() {
        let mut details = Details {
            text: SafeText::default(),
            room: Some(40),
        };
        details.add("error", &"the tests of the second part are red".into());
        details.add_whole("more", &"hankweave logs test -e /a/long/path/to/it".into());
        details.add("", &Value::Null);
        let expected = "  error        the tests of the second\n               part are red\n  more         hankweave logs test -e /a/long/path/to/it\n";
        assert_eq!(details.into_text().as_str(), expected);
    }
}
