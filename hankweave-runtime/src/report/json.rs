//! Events as lines of JSON.

use std::io::{self, Write};

use serde::Serialize;

/// Lines that were not written yet fill at most a little more than this.
const KEPT_BYTES: usize = 64 << 10;

/// Writes lines to standard output, many at a time while they come quickly.
#[derive(Debug, Default)]
pub(crate) struct JsonLines {
    kept: Vec<u8>,
}

impl JsonLines {
    pub(super) fn push(&mut self, event: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.kept, event)?;
        self.kept.push(b'\n');
        match self.kept.len() < KEPT_BYTES {
            true => Ok(()),
            false => self.flush(),
        }
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        let written = io::stdout().lock().write_all(&self.kept);
        self.kept.clear();
        written
    }
}
