//! Writing to a terminal that may be closed at any moment (CLI-24).
//!
//! Libraries that draw treat a failed write as a bug and panic, also while they are dropped. So they get a terminal that takes everything: the first failed
//! write is remembered, and from then on nothing is written.

use std::io::{self, ErrorKind, Write};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use console::Term;
use indicatif::TermLike;

/// A process has one terminal.
static IS_LOST: AtomicBool = AtomicBool::new(false);

/// Whether the terminal was closed, as far as anything was written to it since.
pub(super) fn is_lost() -> bool {
    IS_LOST.load(Relaxed)
}

/// Remembers that the terminal was closed.
pub(super) fn note_lost() {
    IS_LOST.store(true, Relaxed);
}

/// Writes unless the terminal was closed. What a terminal that others have made non-blocking does not take now is drawn again soon.
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

/// Terminal at standard error on which drawing never fails.
#[derive(Debug)]
pub(super) struct InfallibleTerm(Term);

impl InfallibleTerm {
    pub(super) fn stderr() -> Self {
        Self(Term::buffered_stderr())
    }
}

impl TermLike for InfallibleTerm {
    fn width(&self) -> u16 {
        self.0.size().1
    }

    fn height(&self) -> u16 {
        self.0.size().0
    }

    fn move_cursor_up(&self, lines: usize) -> io::Result<()> {
        absorb(|| self.0.move_cursor_up(lines))
    }

    fn move_cursor_down(&self, lines: usize) -> io::Result<()> {
        absorb(|| self.0.move_cursor_down(lines))
    }

    fn move_cursor_right(&self, columns: usize) -> io::Result<()> {
        absorb(|| self.0.move_cursor_right(columns))
    }

    fn move_cursor_left(&self, columns: usize) -> io::Result<()> {
        absorb(|| self.0.move_cursor_left(columns))
    }

    fn write_line(&self, line: &str) -> io::Result<()> {
        absorb(|| self.0.write_line(line))
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        absorb(|| self.0.write_str(text))
    }

    fn clear_line(&self) -> io::Result<()> {
        absorb(|| self.0.clear_line())
    }

    fn flush(&self) -> io::Result<()> {
        absorb(|| self.0.flush())
    }
}
