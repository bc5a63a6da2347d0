//! The keyboard of a person at a terminal.

use std::io::{self, IsTerminal, Read};

use rustix::process::getpgrp;
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcsetattr,
};

/// How long one look for a key takes, in tenths of a second.
const PATIENCE: u8 = 1;

/// A terminal that gives each key at once and shows none of them, until this is dropped. Signals work as always.
#[derive(Debug)]
pub(crate) struct Keyboard {
    before: Termios,
}

impl Keyboard {
    /// The terminal at standard input, if there is one.
    #[must_use]
    pub(crate) fn of_stdin() -> Option<Self> {
        let stdin = io::stdin();
        if !stdin.is_terminal() {
            return None;
        }
        let before = tcgetattr(&stdin).ok()?;
        let mut keys = before.clone();
        keys.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        keys.special_codes[SpecialCodeIndex::VMIN] = 0;
        keys.special_codes[SpecialCodeIndex::VTIME] = PATIENCE;
        tcsetattr(&stdin, OptionalActions::Now, &keys).ok()?;
        Some(Self { before })
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        // A terminal that has gone needs nothing.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

/// A terminal that does not show the keys of signals (`^C`), until this is dropped. What is drawn anew ends at the right edge, and whatever the terminal
/// shows behind that moves it by a line.
#[derive(Debug)]
pub(crate) struct SilentSignals {
    before: Termios,
}

impl SilentSignals {
    /// The terminal at standard input, if there is one and it is ours.
    #[must_use]
    pub(crate) fn of_stdin() -> Option<Self> {
        let before = tcgetattr(io::stdin()).ok().filter(|_| is_ours())?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHOCTL);
        tcsetattr(io::stdin(), OptionalActions::Now, &silent).ok()?;
        Some(Self { before })
    }
}

impl Drop for SilentSignals {
    fn drop(&mut self) {
        if is_ours() {
            // A terminal that has gone needs nothing.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
        }
    }
}

/// Whether we are in the foreground: who changes the terminal of others is stopped.
pub(crate) fn is_ours() -> bool {
    tcgetpgrp(io::stdin()).is_ok_and(|foreground| foreground == getpgrp())
}

/// Waits a moment for a key; `None` when none was pressed. Waits for the terminal.
///
/// # Errors
///
/// What the system says, as when the terminal has gone.
pub(crate) fn key() -> io::Result<Option<u8>> {
    let mut byte = [0];
    match io::stdin().read(&mut byte) {
        Ok(0) => Ok(None),
        Ok(_) => Ok(Some(byte[0])),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
        Err(error) => Err(error),
    }
}
