//! Events as lines on standard output.

use std::io::{self, Write};

use hankweave_core::wire::JournalEntry;
use serde::Serialize;

use super::words::say;

/// Lines that were not written yet fill at most a little more than this.
const KEPT_BYTES: usize = 64 << 10;

/// Writes lines to standard output, many at a time while they come quickly.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    kept: Vec<u8>,
}

impl Lines {
    /// A line for people, when the event is one that they want to know of.
    pub(super) fn say(&mut self, entry: &JournalEntry) -> io::Result<()> {
        match say(&entry.event) {
            Some(line) => {
                self.kept.extend_from_slice(line.as_bytes());
                self.end_line()
            }
            None => Ok(()),
        }
    }

    /// A line for programs.
    pub(super) fn print(&mut self, event: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.kept, event)?;
        self.end_line()
    }

    /// Lines for programs that are written already, each with its line break.
    pub(super) fn pass_on(&mut self, lines: &str) -> io::Result<()> {
        self.kept.extend_from_slice(lines.as_bytes());
        self.flush_if_full()
    }

    fn end_line(&mut self) -> io::Result<()> {
        self.kept.push(b'\n');
        self.flush_if_full()
    }

    fn flush_if_full(&mut self) -> io::Result<()> {
        match self.kept.len() < KEPT_BYTES {
            true => Ok(()),
            false => self.flush(),
        }
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        let mut out = io::stdout().lock();
        let written = out.write_all(&self.kept).and_then(|()| out.flush());
        self.kept.clear();
        written
    }
}
