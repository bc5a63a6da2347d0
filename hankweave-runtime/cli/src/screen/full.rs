//! The whole screen, for as long as a [`Full`] lives. What others print meanwhile is kept and comes out after it.
//!
//! The terminal is given back as it was however the program ends: by [`Full`] being dropped, or by [`give_back`] where nothing is dropped.

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

/// More of what others print is forgotten, the oldest first.
const KEPT_BYTES: usize = 256 << 10;

/// Output that is held while the whole screen is taken.
static HELD: Mutex<Option<HeldOutput>> = Mutex::new(None);

#[derive(Debug, Default)]
struct HeldOutput {
    texts: VecDeque<(OutputStream, String)>,
    bytes: usize,
    forgotten: usize,
}

/// Stream of output.
#[derive(Debug, Clone, Copy)]
pub(super) enum OutputStream {
    Out,
    Error,
}

fn held() -> MutexGuard<'static, Option<HeldOutput>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps what is to be printed, if the whole screen is taken.
pub(super) fn hold(stream: OutputStream, text: &str) -> bool {
    let mut held = held();
    let Some(held) = held.as_mut() else { return false };
    held.bytes += text.len();
    held.texts.push_back((stream, text.to_owned()));
    while held.bytes > KEPT_BYTES
        && let Some((_, oldest)) = held.texts.pop_front()
    {
        held.bytes -= oldest.len();
        held.forgotten += 1;
    }
    true
}

/// Whether somebody has the whole screen.
pub(crate) fn is_taken() -> bool {
    held().is_some()
}

/// Terminal of ratatui, which complains on standard error when it cannot show the cursor again, and panics when that fails as well.
type Screen = Terminal<CrosstermBackend<InfallibleWriter<Stdout>>>;

/// The whole screen.
pub(crate) struct Full {
    terminal: Screen,
    /// In columns and lines, as long as it has been drawn on.
    size: (u16, u16),
}

impl std::fmt::Debug for Full {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Full")
    }
}

impl Full {
    /// Takes the screen.
    pub(crate) fn take() -> io::Result<Self> {
        area::set_aside();
        *held() = Some(HeldOutput::default());
        let entered = execute!(io::stdout(), EnterAlternateScreen, Hide);
        let empty = entered.and_then(|()| Self::empty());
        empty
            .map(|(terminal, size)| Self { terminal, size })
            .inspect_err(|_| give_back())
    }

    /// An empty screen. Its size is fixed: where ratatui follows the size itself, it asks the terminal where the cursor is, and whoever reads keys gets the
    /// answer.
    fn empty() -> io::Result<(Screen, (u16, u16))> {
        let size = size()?;
        execute!(io::stdout(), Clear(ClearType::All))?;
        let viewport = Viewport::Fixed(Rect::new(0, 0, size.0, size.1));
        let options = TerminalOptions { viewport };
        let terminal =
            Terminal::with_options(CrosstermBackend::new(InfallibleWriter(io::stdout())), options)?;
        Ok((terminal, size))
    }

    /// Draws what has changed. A terminal that has another size now is drawn again.
    ///
    /// # Errors
    ///
    /// When the terminal was closed.
    pub(crate) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        if size()? != self.size {
            self.begin_anew()?;
        }
        self.terminal.draw(draw)?;
        match is_lost() {
            true => Err(closed()),
            false => Ok(()),
        }
    }

    /// Lets the shell have the screen, before the program is stopped.
    pub(crate) fn lend(&mut self) -> io::Result<()> {
        execute!(io::stdout(), Show, LeaveAlternateScreen)
    }

    /// Takes it again.
    pub(crate) fn take_again(&mut self) -> io::Result<()> {
        execute!(io::stdout(), EnterAlternateScreen, Hide)?;
        self.begin_anew()
    }

    fn begin_anew(&mut self) -> io::Result<()> {
        (self.terminal, self.size) = Self::empty()?;
        Ok(())
    }
}

/// Columns and lines of the terminal. crossterm would start a program to find out where the terminal does not say.
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

impl Drop for Full {
    fn drop(&mut self) {
        give_back();
    }
}

/// Gives the screen back, if it was taken, and prints what was kept.
pub(crate) fn give_back() {
    let Some(held) = held().take() else { return };
    // A terminal that has gone needs nothing.
    let _ = execute!(io::stdout(), Show, LeaveAlternateScreen);
    area::show_again();
    if held.forgotten > 0 {
        super::print_stderr(format!("{} earlier messages are left out\n", held.forgotten));
    }
    for (stream, text) in held.texts {
        let _ = area::above(|| match stream {
            OutputStream::Out => anstream::stdout().lock().write_all(text.as_bytes()),
            OutputStream::Error => anstream::stderr().lock().write_all(text.as_bytes()),
        });
    }
}
