//! One line for each thing that happens, for logs and pipes.

use std::io::{self, Write};

use hankweave_core::wire::JournalEntry;

use super::words::say;

pub(super) fn event(entry: &JournalEntry) -> io::Result<()> {
    match say(&entry.event) {
        Some(line) => writeln!(anstream::stdout().lock(), "{line}"),
        None => Ok(()),
    }
}
