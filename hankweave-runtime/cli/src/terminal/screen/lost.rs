//! Writing to a terminal that may be closed at any moment (CLI-24).
//!
//! A library that draws treats a failed write as a bug and panics, also while it is dropped. So what draws gets a terminal that takes everything: the
//! first failed write is remembered, and from then on nothing is written.

use std::io::{self, ErrorKind, Write};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

/// Whether the terminal was closed; a process has one terminal.
static IS_LOST: AtomicBool = AtomicBool::new(false);

/// Whether a write has shown that the terminal was closed.
pub(super) fn is_lost() -> bool {
    IS_LOST.load(Relaxed)
}

/// Remembers that the terminal was closed.
pub(super) fn note_lost() {
    IS_LOST.store(true, Relaxed);
}

/// Writes unless the terminal was closed. Another program may have made the terminal non-blocking: what it does not take at the moment is left out.
fn absorb(write: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    if is_lost() {
        return Ok(());
    }
    match write() {
        Ok(()) => {}
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
        Err(_) => note_lost(),
    }
    Ok(())
}

/// Writer that never fails, for a library that draws.
#[derive(Debug)]
pub(super) struct InfallibleWriter<W>(pub(super) W);

impl<W: Write> Write for InfallibleWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        absorb(|| self.0.write_all(bytes))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        absorb(|| self.0.flush())
    }
}
