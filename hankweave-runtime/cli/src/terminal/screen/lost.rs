//! Writing to a terminal that may be closed at any moment (CLI-24).
//!
//! A library that draws treats a failed write as a bug and panics, also while it is dropped. So what draws gets a terminal that takes everything: the
//! first failed write is remembered, and from then on nothing is written.

use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;

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

/// Carries out a write unless the terminal was closed.
fn absorb(write: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    if !is_lost() && write().is_err() {
        note_lost();
    }
    Ok(())
}

/// Writer that never fails, for a library that draws.
#[derive(Debug)]
pub(super) struct InfallibleWriter<W>(pub(super) W);

impl<W: Write + AsFd> Write for InfallibleWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        absorb(|| write_all(&mut self.0, bytes))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        absorb(|| patiently(&mut self.0, W::flush))
    }
}

/// Writes all of `bytes`, also to a terminal that another program has made non-blocking. Text that was left out would garble the screen: what draws only sends
/// changes.
fn write_all<W: Write + AsFd>(terminal: &mut W, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match patiently(terminal, |terminal| terminal.write(bytes))? {
            0 => return Err(ErrorKind::WriteZero.into()),
            written => bytes = &bytes[written..],
        }
    }
    Ok(())
}

/// Calls `write` again, once the terminal takes more, until it neither would block nor was interrupted.
fn patiently<W: AsFd, T>(terminal: &mut W, mut write: impl FnMut(&mut W) -> io::Result<T>) -> io::Result<T> {
    loop {
        match write(terminal) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                retry_on_intr(|| poll(&mut [PollFd::new(terminal, PollFlags::OUT)], None))?;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            written => return written,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{PipeWriter, Read as _};
    use std::os::fd::BorrowedFd;
    use std::sync::mpsc::{Sender, channel};
    use std::thread;

    use rustix::io::ioctl_fionbio;

    use super::*;

    /// Pipe that reports each write for which it is full.
    struct NarrowPipe {
        pipe: PipeWriter,
        full: Sender<()>,
    }

    impl AsFd for NarrowPipe {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.pipe.as_fd()
        }
    }

    impl Write for NarrowPipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let written = self.pipe.write(bytes);
            if written
                .as_ref()
                .is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
            {
                // Only the first report has a receiver that waits.
                let _ = self.full.send(());
            }
            written
        }

        fn flush(&mut self) -> io::Result<()> {
            self.pipe.flush()
        }
    }

    // covers: CLI-24
    #[test]
    fn a_terminal_that_does_not_block_gets_all_that_is_drawn() {
        let (mut reader, pipe) = io::pipe().unwrap();
        ioctl_fionbio(&pipe, true).unwrap();
        let (full, is_full) = channel();
        let reading = thread::spawn(move || {
            is_full.recv().unwrap();
            let mut read = Vec::new();
            reader.read_to_end(&mut read).unwrap();
            read
        });
        let drawn: Vec<u8> = (0..=u8::MAX).cycle().take(1 << 20).collect();
        let mut terminal = InfallibleWriter(NarrowPipe { pipe, full });
        terminal.write_all(&drawn).unwrap();
        terminal.flush().unwrap();
        drop(terminal);
        assert!(reading.join().unwrap() == drawn);
    }
}
