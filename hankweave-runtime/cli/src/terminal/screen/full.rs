//! Alternate screen of the terminal, taken for as long as a [`FullScreen`] lives. Other output is held meanwhile and printed after it.
//!
//! The terminal is given back as it was however the program ends: a dropped [`FullScreen`] does it, and [`give_back`] where nothing is dropped.

use std::collections::VecDeque;
use std::io::{self, IsTerminal as _, Stdout, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};

use console::Term;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen};
use ratatui::layout::Rect;
use ratatui::{Frame, Terminal, TerminalOptions, Viewport};

use super::area;
use super::lost::{InfallibleWriter, is_lost, note_lost};

/// Maximum of held output, in bytes; above it the oldest texts are dropped.
const MAX_HELD_BYTES: usize = 256 << 10;

/// Output that is held; `None` while the screen is not taken.
static HELD: Mutex<Option<HeldOutput>> = Mutex::new(None);

#[derive(Debug, Default)]
struct HeldOutput {
    texts: VecDeque<(OutputStream, String)>,
    bytes: usize,
    /// Number of dropped texts.
    dropped: usize,
}

/// Stream that a held text is for.
#[derive(Debug, Clone, Copy)]
pub(super) enum OutputStream {
    Out,
    Error,
}

fn held() -> MutexGuard<'static, Option<HeldOutput>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Holds a text until the screen is given back. Returns `false` if the screen is not taken: then the caller prints the text.
pub(super) fn hold(stream: OutputStream, text: &str) -> bool {
    let mut held = held();
    let Some(held) = held.as_mut() else { return false };
    held.bytes += text.len();
    held.texts.push_back((stream, text.to_owned()));
    while held.bytes > MAX_HELD_BYTES
        && let Some((_, oldest)) = held.texts.pop_front()
    {
        held.bytes -= oldest.len();
        held.dropped += 1;
    }
    true
}

/// Whether the screen is taken.
pub(crate) fn is_taken() -> bool {
    held().is_some()
}

/// Terminal of ratatui. Its writer never fails: ratatui prints to standard error when it cannot show the cursor again, and panics if that fails too.
type Screen = Terminal<CrosstermBackend<InfallibleWriter<Stdout>>>;

/// Taken screen; dropping it gives the screen back.
pub(crate) struct FullScreen {
    terminal: Screen,
    /// Columns and lines of what was drawn last.
    size: (u16, u16),
}

impl std::fmt::Debug for FullScreen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FullScreen")
    }
}

impl FullScreen {
    /// Takes the screen.
    pub(crate) fn take() -> io::Result<Self> {
        area::set_aside();
        *held() = Some(HeldOutput::default());
        let empty = execute!(io::stdout(), EnterAlternateScreen, Hide).and_then(|()| Self::empty());
        match empty {
            Ok((terminal, size)) => Ok(Self { terminal, size }),
            Err(error) => {
                give_back();
                Err(error)
            }
        }
    }

    /// Clears the screen and returns a terminal of its size. The size is fixed, because a terminal that follows it asks where the cursor is, and the
    /// reader of keys would take the answer for keys.
    fn empty() -> io::Result<(Screen, (u16, u16))> {
        let size = size()?;
        execute!(io::stdout(), Clear(ClearType::All))?;
        let viewport = Viewport::Fixed(Rect::new(0, 0, size.0, size.1));
        let options = TerminalOptions { viewport };
        let terminal =
            Terminal::with_options(CrosstermBackend::new(InfallibleWriter(io::stdout())), options)?;
        Ok((terminal, size))
    }

    /// Draws what has changed, or all of it if the terminal has another size now.
    ///
    /// # Errors
    ///
    /// If the terminal was closed.
    pub(crate) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        if size()? != self.size {
            self.reset()?;
        }
        self.terminal.draw(draw)?;
        match is_lost() {
            true => Err(closed()),
            false => Ok(()),
        }
    }

    /// Leaves the screen to the shell before the program is suspended; output stays held.
    pub(crate) fn lend(&mut self) -> io::Result<()> {
        execute!(io::stdout(), Show, LeaveAlternateScreen)
    }

    /// Takes the screen again after [`lend`](Self::lend); the next [`draw`](Self::draw) draws all of it.
    pub(crate) fn take_again(&mut self) -> io::Result<()> {
        execute!(io::stdout(), EnterAlternateScreen, Hide)?;
        self.reset()
    }

    fn reset(&mut self) -> io::Result<()> {
        (self.terminal, self.size) = Self::empty()?;
        Ok(())
    }
}

/// Returns columns and lines of the terminal. `console` asks the terminal alone; crossterm would start the program `tput` if that fails.
fn size() -> io::Result<(u16, u16)> {
    if !io::stdout().is_terminal() {
        note_lost();
        return Err(closed());
    }
    let (lines, columns) = Term::stdout().size();
    Ok((columns, lines))
}

fn closed() -> io::Error {
    io::Error::other("the terminal was closed")
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Gives the screen back and prints the held output; does nothing if the screen is not taken.
pub(crate) fn give_back() {
    // A terminal that was closed needs no leaving.
    let leave = || drop(execute!(io::stdout(), Show, LeaveAlternateScreen));
    let Some(held) = release(leave) else { return };
    area::show_again();
    if held.dropped > 0 {
        super::print_stderr(format!("{} earlier messages are left out\n", held.dropped));
    }
    for (stream, text) in held.texts {
        let _ = area::above(|| match stream {
            OutputStream::Out => anstream::stdout().lock().write_all(text.as_bytes()),
            OutputStream::Error => anstream::stderr().lock().write_all(text.as_bytes()),
        });
    }
}

/// Leaves the screen, then ends the holding of output. The order matters: once output is not held, another thread prints, and its text would be lost
/// with the alternate screen.
fn release(leave: impl FnOnce()) -> Option<HeldOutput> {
    let mut held = held();
    if held.is_some() {
        leave();
    }
    held.take()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{self, RecvTimeoutError};
    use std::thread;
    use std::time::Duration;

    use super::*;

    // covers: CLI-35
    #[test]
    fn nothing_is_printed_before_the_screen_is_left() {
        *held() = Some(HeldOutput::default());
        let (sender, was_held) = mpsc::channel();
        let released = release(|| {
            thread::spawn(move || sender.send(hold(OutputStream::Out, "text")));
            let meanwhile = was_held.recv_timeout(Duration::from_millis(100));
            assert_eq!(meanwhile, Err(RecvTimeoutError::Timeout), "it would print");
        });
        assert!(released.is_some());
        assert!(!was_held.recv().unwrap(), "it may print now");
    }
}
