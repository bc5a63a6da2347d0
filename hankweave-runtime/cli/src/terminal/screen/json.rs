//! JSON on standard output: data unchanged, and harmless on a terminal.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};

use serde::Serialize;

use super::harmless::is_hidden;

/// Number of buffered bytes at which the lines are written out.
const KEPT_BYTES: usize = 64 << 10;

/// Prints one document, which may have many lines.
pub(crate) fn print_json(document: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(&harmless(document.as_bytes()))?;
    out.flush()
}

/// Writes lines of JSON to standard output, many at a time while they come quickly.
#[derive(Debug, Default)]
pub(crate) struct JsonLines {
    /// Lines that are not written yet.
    kept: Vec<u8>,
}

impl JsonLines {
    /// Adds one more line.
    pub(crate) fn print(&mut self, document: &impl Serialize) -> io::Result<()> {
        self.line(&serde_json::to_vec(document)?)
    }

    /// Adds one more line, which is JSON already.
    pub(crate) fn line(&mut self, line: &[u8]) -> io::Result<()> {
        self.kept.extend_from_slice(&harmless(line));
        self.kept.push(b'\n');
        self.flush_if_full()
    }

    /// Adds lines that are JSON already, each with its line break.
    pub(crate) fn lines(&mut self, lines: &str) -> io::Result<()> {
        self.kept.extend_from_slice(&harmless(lines.as_bytes()));
        self.flush_if_full()
    }

    fn flush_if_full(&mut self) -> io::Result<()> {
        match self.kept.len() < KEPT_BYTES {
            true => Ok(()),
            false => self.flush(),
        }
    }

    /// Writes out the buffered lines.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let mut out = io::stdout().lock();
        let written = out.write_all(&self.kept).and_then(|()| out.flush());
        self.kept.clear();
        written
    }
}

/// Writes all hidden characters of a JSON text as escapes. They can only be inside strings, where `\u009b` means that character.
fn harmless(json: &[u8]) -> Cow<'_, [u8]> {
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~' | b'\n' | b'\t');
    if json.iter().all(is_plain) {
        return Cow::Borrowed(json);
    }
    let text = String::from_utf8_lossy(json);
    let mut escaped = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            '\n' | '\t' => escaped.push(character),
            hidden if is_hidden(hidden) => {
                for unit in hidden.encode_utf16(&mut [0; 2]) {
                    // Writing to a String cannot fail.
                    let _ = write!(escaped, "\\u{unit:04x}");
                }
            }
            other => escaped.push(other),
        }
    }
    Cow::Owned(escaped.into_bytes())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    // covers: S9
    #[test]
    fn json_is_harmless_and_says_the_same() {
        let document = json!({"a\u{9b}2J": ["\u{202e}txt.exe", "\u{7f}", "\u{1b}[2J", "\u{e0041}", "a\u{200d}b", "ok ✓\n"]});
        let raw = serde_json::to_vec(&document).unwrap();
        let shown = harmless(&raw);
        let text = str::from_utf8(&shown).unwrap();
        assert!(!text.chars().any(is_hidden), "{text:?}");
        assert!(
            text.contains(r"a\u009b2J") && text.contains(r"\udb40\udc41") && text.contains("✓"),
            "{text}"
        );
        assert_eq!(serde_json::from_slice::<Value>(&shown).unwrap(), document);
    }

    #[test]
    fn plain_json_is_not_copied() {
        assert!(matches!(harmless(b"{\"a\": [1,\n\t2]}"), Cow::Borrowed(_)));
    }
}
