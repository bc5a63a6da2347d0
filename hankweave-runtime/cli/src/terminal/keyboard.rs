//! The keyboard of a person at a terminal.

use std::io::{self, IsTerminal};

use hankweave_runtime::world::blocking::Blocking;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::getpgrp;
use rustix::termios::{
    LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush, tcgetattr, tcgetpgrp,
    tcsetattr,
};

/// Longest wait for a key in one call.
const MOMENT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// A terminal that passes each key on at once and echoes none, not even those of signals (`^C`), until the value is dropped. Signals work as always. There
/// is no echo because it would shift lines that are drawn again by one line: they end at the right edge.
#[derive(Debug)]
pub(crate) struct Keyboard {
    /// Modes that the terminal had before.
    before: Termios,
    /// Modes in which it passes keys on.
    keys: Termios,
}

impl Keyboard {
    /// Takes the terminal at standard input, if there is one and it is ours.
    #[must_use]
    pub(crate) fn of_stdin() -> Option<Self> {
        let stdin = io::stdin();
        if !stdin.is_terminal() || !is_ours() {
            return None;
        }
        let before = tcgetattr(&stdin).ok()?;
        let mut keys = before.clone();
        keys.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        keys.special_codes[SpecialCodeIndex::VMIN] = 0;
        keys.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(&stdin, OptionalActions::Now, &keys).ok()?;
        Some(Self { before, keys })
    }

    /// Gives the terminal back its modes from before, until [`again`](Self::again), because some shells do not set them themselves.
    pub(crate) fn lend(&self) {
        set(&self.before);
    }

    /// Sets the terminal again: a shell that had it in between, as after Ctrl+Z, has changed it.
    pub(crate) fn again(&self) {
        set(&self.keys);
    }

    /// Waits a moment for a key; `None` when none was pressed (CLI-41).
    ///
    /// Cancel safe: a key is read only by the call that returns it, so a key that is pressed after a call was dropped is there for the next one.
    /// Standard input is read past the buffer of `std`, which would keep keys for itself.
    ///
    /// # Errors
    ///
    /// What the system says, as when the terminal has gone.
    pub(crate) async fn key(&self) -> io::Result<Option<u8>> {
        if is_set_by_others() {
            self.again();
        }
        if !Blocking::Threads.run(is_pressed).await? {
            return Ok(None);
        }
        let mut byte = [0];
        match rustix::io::read(io::stdin(), &mut byte) {
            // A terminal that is ready and holds nothing has gone.
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(Some(byte[0])),
            Err(Errno::INTR | Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Whether keys come as lines again, because a shell had the terminal.
fn is_set_by_others() -> bool {
    is_ours() && tcgetattr(io::stdin()).is_ok_and(|now| now.local_modes.contains(LocalModes::ICANON))
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        set(&self.before);
    }
}

fn set(modes: &Termios) {
    if is_ours() {
        // A terminal that has gone needs nothing.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, modes);
    }
}

/// Whether we are in the foreground: the system stops a background process that changes the terminal.
pub(crate) fn is_ours() -> bool {
    tcgetpgrp(io::stdin()).is_ok_and(|foreground| foreground == getpgrp())
}

/// Forgets what was typed and not read yet, before a question is put: it cannot be its answer.
pub(crate) fn forget_typed() {
    let stdin = io::stdin();
    if stdin.is_terminal() && is_ours() {
        // A terminal that has gone has nothing to forget.
        let _ = tcflush(&stdin, QueueSelector::IFlush);
    }
}

/// Waits a moment until a key can be read, and takes no key. Returns `false` if none was pressed, and while another program has the terminal: the
/// system stops a background process that reads.
///
/// # Errors
///
/// When the terminal was closed.
fn is_pressed() -> io::Result<bool> {
    let stdin = io::stdin();
    // A terminal that was closed never comes back, and every later look would find nothing.
    tcgetpgrp(&stdin)?;
    let mut wanted = [PollFd::new(&stdin, PollFlags::IN)];
    let wanted = if is_ours() { &mut wanted[..] } else { &mut [] };
    match poll(wanted, Some(&MOMENT)) {
        Ok(ready) => Ok(ready > 0 && is_ours()),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
